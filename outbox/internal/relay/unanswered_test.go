package relay

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// functions are what the function does for each topic.
type functions map[string]func(context.Context) error

// callEach makes a function the destination, and returns the log.
func (v *virtual) callEach(of functions) *bytes.Buffer {
	log := &bytes.Buffer{}
	v.config.Window, v.config.Logger = 100, slog.New(slog.NewTextHandler(log, nil))
	v.to = publish.Func(func(ctx context.Context, m publish.Message) error { return of[m.Topic](ctx) }, publish.FuncConfig{})
	v.newRelay()
	return log
}

// wantHealth checks how what Health says begins, and since how many seconds there is no answer.
func (v *virtual) wantHealth(want string, noAnswer time.Duration) {
	v.Helper()
	if err := v.relay.Health(); !strings.HasPrefix(fmt.Sprint(err), want) || v.relay.NoAnswer() != noAnswer {
		v.Errorf("%v, %s", err, v.relay.NoAnswer())
	}
}

func fast(context.Context) error { return nil }

// deaf is a call that does not look at its context.
func deaf(takes time.Duration) func(context.Context) error {
	return func(context.Context) error { time.Sleep(takes); return nil }
}

// TestP4ACallThatDoesNotReturn holds its own event and nothing else, and is named.
func TestP4ACallThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		log := v.callEach(functions{"hangs": deaf(100 * time.Second), "good": fast})
		id := v.outbox.append("hangs", 1)[0]
		v.run()
		v.sleep(40 * time.Second) // no answer after 31
		v.outbox.append("good", 1)
		v.sleep(2 * time.Second)
		v.want(1, "published")
		v.wantHealth(fmt.Sprintf("no answer from function for 42 s; messages that wait: 0, calls that have not returned: 1, such as that for message %s of topic hangs", id), 42*time.Second)
		v.sleep(time.Minute) // the call returns
		v.want(2, "published")
		v.wantHealth("<nil>", 0)
		v.stop()
		if f := v.outbox.failures; len(f) != 1 || f[0].Code != store.CodeNoAnswer || f[0].Delay <= 0 || f[0].Counts {
			t.Errorf("failures %+v", f)
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
			t.Errorf("%d errors:\n%s", n, log)
		}
	})
}

// TestTheMemoryOfACallThatDoesNotReturnIsInUse: nothing is claimed beside so much.
func TestTheMemoryOfACallThatDoesNotReturnIsInUse(t *testing.T) {
	t.Parallel()
	for size, published := range map[int]int{maxBytes / 2: 1, maxBytes/2 + 1: 0} {
		inVirtualTime(t, func(v *virtual) {
			v.callEach(functions{"hangs": deaf(100 * time.Second), "good": fast})
			v.outbox.appendAgain("hangs", uuid.New(), size)
			v.run()
			v.sleep(40 * time.Second)
			v.outbox.append("good", 1)
			v.sleep(10 * time.Second)
			v.want(published, "published")
			v.sleep(time.Minute)
			v.want(2, "published")
		})
	}
}

// TestASilentDestinationIsNamed while something waits for it, as a mail server that accepts
// connections and says nothing. That a message is put aside is no answer.
func TestASilentDestinationIsNamed(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		log := v.callEach(functions{"a": deaf(12 * time.Second), "b": deaf(time.Second)})
		v.to = struct{ publish.Destination }{v.to} // without AnswersWithin
		v.newRelay()
		v.outbox.append("a", 1)
		v.run()
		for s := range 7 {
			if err := v.relay.Health(); (err != nil) != (s >= 5) {
				t.Errorf("%d s: %v", s, err)
			}
			v.outbox.append("a", 1)
			v.sleep(time.Second)
		}
		v.wantHealth("no answer from function for 7 s; messages that wait: ", 7*time.Second)
		v.outbox.append("b", 1)
		v.sleep(2 * time.Second)
		v.wantHealth("<nil>", 0)
		v.stop()
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
			t.Errorf("%d errors:\n%s", n, log)
		}
	})
}

// TestP12AtTheEndACallThatDoesNotReturnIsRecorded, and what returns while it is waited for.
func TestP12AtTheEndACallThatDoesNotReturnIsRecorded(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.callEach(functions{"hangs": deaf(100 * time.Second), "slow": deaf(12500 * time.Millisecond)})
		v.outbox.append("hangs", 1)
		v.outbox.append("slow", 1)
		v.run()
		v.sleep(2 * time.Second)
		began := time.Now()
		v.stop()
		if took := time.Since(began); len(v.outbox.failures) != 1 || v.outbox.count("published") != 1 || took > 12*time.Second {
			t.Errorf("after %s: failures %+v, %v", took, v.outbox.failures, v.outbox.became)
		}
		time.Sleep(100 * time.Second) // the call returns
	})
}

// TestALateConfirmIsRecordedOnceByOneWorker, although two sessions have sent the event, and the others
// rest meanwhile.
func TestALateConfirmIsRecordedOnceByOneWorker(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.config.Workers = 2
		settled := 0
		v.outbox.onSettle = func(ctx context.Context, s store.Settlement) error {
			settled += len(s.Published)
			Wait(ctx, 4*time.Second)
			return ctx.Err()
		}
		v.run()
		e := store.Event{ID: uuid.New(), Topic: "a"}
		v.relay.late.add(e)
		v.relay.late.add(e)
		before := v.broker.turns()
		v.sleep(5 * time.Second)
		if turns := v.broker.turns() - before; settled != 1 || turns > 100 || v.relay.late.isLeft() {
			t.Errorf("recorded %d times; the workers have asked %d times whether the broker blocks", settled, turns)
		}
	})
}

// TestACallThatReturnsAfterItsWorkerHasEnded: its event is published, by the next Run.
func TestACallThatReturnsAfterItsWorkerHasEnded(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.callEach(functions{"hangs": deaf(100 * time.Second)})
		v.outbox.append("hangs", 1)
		v.run()
		v.sleep(40 * time.Second)
		v.stop()
		v.run()
		v.sleep(2 * time.Minute)
		v.want(1, "published")
		v.wantHealth("<nil>", 0)
	})
}

// TestACallThatDoesNotReturnKeepsNoOtherPayload of its claim.
func TestACallThatDoesNotReturnKeepsNoOtherPayload(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.callEach(functions{"hangs": deaf(100 * time.Second), "good": fast})
		v.outbox.append("hangs", 1)
		v.outbox.appendAgain("good", uuid.New(), 1<<20)
		payload := weak.Make(&v.outbox.pending[1].Payload[0])
		v.run()
		v.sleep(40 * time.Second)
		v.outbox.mu.Lock()
		clear(v.outbox.claimed)
		v.outbox.pending = nil
		v.outbox.mu.Unlock()
		if runtime.GC(); payload.Value() != nil {
			t.Error("the payload is still in memory")
		}
		v.sleep(time.Minute) // the call returns
	})
}
