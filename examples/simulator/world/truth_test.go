package world

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/internal/store"
)

// TestAKilledRelayChangesNothing kills a relay at each step of a batch that it sends.
func TestAKilledRelayChangesNothing(t *testing.T) {
	t.Parallel()
	for steps := range 8 {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := New(func() {})
				defer w.end()
				w.doAll(t, "client/new", "client/new", "broker/refuse A")
				for range steps {
					w.doAll(t, "relay 1/go")
				}
				before := w.View()
				w.doAll(t, "relay 1/kill")
				time.Sleep(time.Hour) // all of the relay's timers fire
				synctest.Wait()
				after := w.View()
				after.Relays, after.Actions, after.Log, after.Did = before.Relays, before.Actions, before.Log, before.Did
				if !reflect.DeepEqual(before, after) {
					t.Errorf("before\n%+v\nafter\n%+v", before, after)
				}
			})
		})
	}
}

// TestWhatHappenedWithoutTheInboxIsNotInIt: the effect is there again when the inbox is used again.
func TestWhatHappenedWithoutTheInboxIsNotInIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(func() {})
		defer w.end()
		w.doAll(t, "client/new", "relay 1/go", "relay 1/go", "broker/duplicate", "broker/duplicate", "consumer/inbox", "consumer/go")
		w.wantLabel(t, "consumer/go", "commit the effect")
		w.doAll(t, "consumer/go", "consumer/go", "consumer/inbox")
		if v := w.View(); len(v.Inbox) != 0 {
			t.Errorf("the inbox has %+v", v.Inbox)
		}
		w.doAll(t, "consumer/go")
		w.wantLabel(t, "consumer/go", "commit the inbox's row and the effect")
		w.doAll(t, "consumer/go", "consumer/go", "consumer/go")
		w.wantLabel(t, "consumer/go", "find it in the inbox, and do nothing")
		w.doAll(t, "consumer/go", "consumer/go")
		v := w.View()
		if len(v.Effects) != 2 || len(v.Inbox) != 1 || !v.Promises[1].Bad {
			t.Errorf("%+v", v)
		}
	})
}

func (w *World) wantLabel(t *testing.T, id, want string) {
	t.Helper()
	for _, a := range w.View().Actions {
		if a.ID == id && a.Label == want {
			return
		}
	}
	t.Errorf("no action %s with the label %q", id, want)
}

// TestAnEventIsDueLater: with the time alone, a short delay would look as if it were over.
func TestAnEventIsDueLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(func() {})
		defer w.end()
		w.doAll(t, "client/new", "broker/refuse A", "relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go")
		got := w.View().Queue[0].Text
		if !strings.HasPrefix(got, "due in ") || !strings.HasSuffix(got, "ms (refused, retry_count 1)") {
			t.Errorf("%q", got)
		}
	})
}

// TestARefusedEventFailsByAge: after a minute, and ten refusals at least. An operator replays it.
func TestARefusedEventFailsByAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(func() {})
		defer w.end()
		w.doAll(t, "client/new", "broker/refuse A")
		for range store.LeastRefusals {
			w.doAll(t, "clock/1m0s", "clock/1m0s", "clock/1m0s", "clock/1m0s", "clock/1m0s")
			w.doAll(t, "relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go")
		}
		synctest.Wait()
		if v := w.View(); v.Queue[0].Text != "failed: waits for an operator (refused, retry_count 10)" || len(v.Dead) != 1 {
			t.Errorf("%+v, dead letters %+v", v.Queue, v.Dead)
		}
		w.doAll(t, "broker/refuse A", "replay/A1", "relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go")
		if v := w.View(); len(v.Done) != 1 {
			t.Errorf("%+v", v)
		}
	})
}

// TestAnOperatorPausesEveryTopic, also before the first claim.
func TestAnOperatorPausesEveryTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(func() {})
		defer w.end()
		w.doAll(t, "client/new", "pause/*", "relay 1/go", "relay 2/go", "relay 1/go", "clock/1m0s", "relay 1/go")
		if v := w.View(); len(v.Claims) != 0 || v.Queue[0].Text != "due" {
			t.Errorf("%+v", v)
		}
		w.doAll(t, "resume/*", "relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go")
		if v := w.View(); len(v.Done) != 1 || len(v.Topics) != 0 {
			t.Errorf("%+v", v)
		}
	})
}

// TestThePageStaysSmall does what a reader can do again and again.
func TestThePageStaysSmall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(func() {})
		defer w.end()
		w.doAll(t, "client/new", "relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go")
		const times = 10_000
		for range times {
			w.Do("broker/duplicate")
			w.Do("clock/1s")
		}
		v := w.View()
		if len(v.Log) != maxLog || len(v.Broker) != maxQueue || v.Did != 5+maxQueue-1+times {
			t.Errorf("%d lines, %d messages, %d actions", len(v.Log), len(v.Broker), v.Did)
		}
	})
}
