package world

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the relays log each batch
	os.Exit(m.Run())
}

// TestThePromisesHoldWhateverTheReaderDoes takes random steps: relays and the consumer die, their
// connections break, messages are lost, refused, delayed and duplicated, and the clock goes on. The
// inbox stays on. At the end everything is repaired, and each event must have its effect.
func TestThePromisesHoldWhateverTheReaderDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // so that the relays' own pauses take no time
		rapid.Check(noDeadline{t}, func(r *rapid.T) {
			w := New(func() {})
			defer w.end()
			for range rapid.IntRange(1, 80).Draw(r, "steps") {
				w.Do(rapid.SampledFrom(withoutInboxSwitch(w.View().Actions)).Draw(r, "action").ID)
				w.check(r)
			}
			w.finish(r)
		})
	})
}

func withoutInboxSwitch(all []Action) []Action {
	return slices.DeleteFunc(all, func(a Action) bool { return a.ID == "consumer/inbox" })
}

func (w *World) check(t interface{ Fatalf(string, ...any) }) {
	v := w.View()
	for _, p := range v.Promises {
		if p.Bad {
			t.Fatalf("%s: %s\n%s", p.Name, p.Text, strings.Join(v.Log, "\n"))
		}
	}
}

// finish repairs everything, and lets the system work until nothing is left to do.
func (w *World) finish(r *rapid.T) {
	for round := 0; w.unfinished(); round++ {
		if round == 200 {
			r.Fatalf("still waiting after\n%s", strings.Join(w.View().Log, "\n"))
		}
		for _, a := range w.View().Actions {
			if !a.Fault && !strings.HasPrefix(a.ID, "client/") {
				w.Do(a.ID)
			}
		}
		w.check(r)
		time.Sleep(time.Second) // a relay waits for the end of a pause by its own clock
	}
}

// unfinished reports whether an event has not had its effect.
func (w *World) unfinished() bool {
	v := w.View()
	return len(v.Queue)+len(v.Broker)+len(v.Consumer) > 0 || len(v.Effects) < len(w.events)
}

// TestWithoutTheInboxAnEffectHappensTwice is what the page invites its reader to try.
func TestWithoutTheInboxAnEffectHappensTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(func() {})
		defer w.end()
		w.doAll(t, "consumer/inbox", "client/new", "relay 1/go", "relay 1/go", "relay 1/go", "relay 1/kill")
		w.doAll(t, "consumer/go", "consumer/go", "consumer/go", "clock/1m0s", "relay 2/go", "relay 2/go", "relay 2/go", "relay 2/go")
		w.doAll(t, "consumer/go", "consumer/go")
		if bad := w.View().Promises[1]; !bad.Bad || bad.Text != "more than one effect of: A1" {
			t.Errorf("%+v", bad)
		}
	})
}

func (w *World) doAll(t *testing.T, actions ...string) {
	t.Helper()
	for _, id := range actions {
		synctest.Wait()
		if !w.Do(id) {
			t.Fatalf("no action %q now, in %+v", id, w.View())
		}
	}
}

// TestARelayThatWakesUpAfterItsLeaseChangesNothing: the other relay has the event now.
func TestARelayThatWakesUpAfterItsLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(func() {})
		defer w.end()
		w.doAll(t, "client/new", "broker/refuse A", "relay 1/go", "relay 1/go", "relay 1/go", "clock/1m0s", "relay 2/go", "relay 1/go")
		v := w.View()
		if want := (Row{Name: "A1", Text: "relay 2 until 12:02:00"}); len(v.Claims) != 1 || v.Claims[0] != want {
			t.Errorf("claims %+v, want %+v", v.Claims, want)
		}
		if v.Queue[0].Text != "due" {
			t.Errorf("relay 1 has changed the event: %+v", v.Queue)
		}
	})
}

func TestAnActionThatIsNotPossibleNowIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(func() {})
		defer w.end()
		if w.Do("replay/A1") || len(w.View().Log) != 0 {
			t.Error("did something")
		}
	})
}

// end kills everything, and lets the time pass that the relays then still need.
func (w *World) end() {
	w.Close()
	time.Sleep(time.Minute)
}

// noDeadline hides the method Deadline, which panics in a bubble of synctest.
type noDeadline struct{ testing.TB }
