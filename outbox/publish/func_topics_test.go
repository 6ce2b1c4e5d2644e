package publish_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// message is one of each topic.
func messages(topics ...string) (all []publish.Message) {
	for _, topic := range topics {
		all = append(all, publish.Message{Topic: topic})
	}
	return all
}

// TestP4ATopicThatIsSilentHoldsUpNoOther, not even the same topic of another destination: there are
// more of them than calls. Their functions wait for the end of their contexts, or never return.
func TestP4ATopicThatIsSilentHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]function{"waits": takes(time.Hour), "deaf": deaf} {
		synctest.Test(t, func(t *testing.T) {
			p := publisherOf(t, publish.Func(func(ctx context.Context, m publish.Message) error {
				if m.Destination == "good" {
					return nil
				}
				return hangs(ctx, m)
			}, publish.FuncConfig{Calls: 16}))
			var silent []string
			for i := range 64 {
				silent = append(silent, slices.Repeat([]string{fmt.Sprint("silent ", i)}, 6)...)
			}
			all := append(messages(silent...), publish.Message{Topic: "silent 0", Destination: "good"})
			first := beginAll(t.Context(), p, all)
			sleep(5 * time.Second)
			again := beginAll(t.Context(), p, all)
			sleep(3 * time.Hour)
			if a := first[len(silent)]; a.Outcome != publish.Confirmed || a.after > 5*time.Second {
				t.Errorf("%s: %+v beside topics that are silent", name, a)
			}
			if a := again[len(silent)]; a.Outcome != publish.Confirmed || a.after > 5*time.Second {
				t.Errorf("%s: %+v beside topics that are known to be silent", name, a)
			}
			for i, a := range slices.Concat(first[:len(silent)], again[:len(silent)]) {
				if !errors.Is(a.Err, publish.ErrBusy) && !errors.Is(a.Err, publish.ErrTimeout) {
					t.Fatalf("%s: message %d: %+v", name, i, a)
				}
			}
		})
	}
}

// TestP4WhatATopicMayHave: so many calls, and of a hundred messages so many that wait. The others come
// again. The second time it is known how long a call takes, so those are answered at once.
func TestP4WhatATopicMayHave(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		f                   function
		busy, again, atOnce int
	}{
		"no time":     {fails(nil), 0, 0, 0},
		"fast":        {takes(50 * time.Millisecond), 0, 0, 0},
		"two seconds": {takes(2 * time.Second), 92, 92, 92},
		"refuses":     {later(errors.New("500")), 0, 0, 0},
		"silent":      {takes(time.Hour), 96, 96, 0},
		"unreachable": {later(publish.ErrNotSent), 100, 100, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var running, most atomic.Int64
			p := publisherOf(t, publish.Func(func(ctx context.Context, m publish.Message) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				return row.f(ctx, m)
			}, publish.FuncConfig{}))
			for again, want := range []int{row.busy, row.again} {
				answers, busy, atOnce := begin(t.Context(), p, 100), 0, 0
				sleep(time.Minute)
				for _, a := range answers {
					if errors.Is(a.Err, publish.ErrBusy) && a.after <= 3*time.Second {
						if busy++; a.after == 0 {
							atOnce++
						}
					}
				}
				if busy != want || again == 1 && atOnce != row.atOnce || most.Load() > 4 {
					t.Errorf("%s: %d calls at a time; %d messages come again, %d of them at once", name, most.Load(), busy, atOnce)
				}
			}
		})
	}
}

// TestAMessageThatGivesUpKeepsTheOrder of the others of its topic.
func TestAMessageThatGivesUpKeepsTheOrder(t *testing.T) {
	t.Parallel()
	for _, one := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var order []string
			to := publish.Func(func(_ context.Context, m publish.Message) error {
				order = append(order, m.ID)
				time.Sleep(500 * time.Millisecond)
				return nil
			}, publish.FuncConfig{OneDestination: one, Calls: 1})
			stays, ends := publisherOf(t, to), publisherOf(t, to)
			for i, p := range []publish.Publisher{stays, stays, stays, ends, stays} {
				p.Publish(t.Context(), []publish.Message{{ID: strconv.Itoa(i)}}, func(int, publish.Result) {})
				synctest.Wait()
			}
			ends.Close()
			if sleep(10 * time.Second); strings.Join(order, " ") != "0 1 2 4" {
				t.Errorf("%s", order)
			}
		})
	}
}

// TestOneSlowCallMakesNoTopicSlow for long.
func TestOneSlowCallMakesNoTopicSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var isFast atomic.Bool
		p := publisherOf(t, publish.Func(func(context.Context, publish.Message) error {
			if !isFast.Swap(true) {
				time.Sleep(time.Hour)
			}
			time.Sleep(5 * time.Millisecond)
			return nil
		}, publish.FuncConfig{}))
		begin(t.Context(), p, 1)
		sleep(2 * time.Hour)
		for _, want := range []int{92, 60, 0} { // each tells more of how long calls take
			answers := begin(t.Context(), p, 100)
			sleep(time.Minute)
			busy := 0
			for _, a := range answers {
				if errors.Is(a.Err, publish.ErrBusy) {
					busy++
				}
			}
			if busy > want {
				t.Errorf("%d come again, want at most %d", busy, want)
			}
		}
	})
}
