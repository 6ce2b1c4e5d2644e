package relay

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// emails are the settings of a relay to a mail server.
func emails() Config {
	c := testConfig
	c.SettleAfter = time.Microsecond
	c.NoAnswerPauses = []time.Duration{time.Minute, time.Hour}
	c.ShutdownTimeout = 20 * time.Second
	return c
}

// mail sends through a function that takes so long, one after the other. It counts the calls.
func (v *virtual) mail(takes time.Duration) (calls *int) {
	v.config, calls = emails(), new(int)
	v.to = publish.Func(func(ctx context.Context, _ publish.Message) error {
		*calls++
		Wait(ctx, takes)
		return ctx.Err()
	}, publish.FuncConfig{OneDestination: true, Calls: 1})
	return calls
}

// TestP6NothingIsBegunWhileNothingCanBeMarked: each e-mail more would be one more repeat.
func TestP6NothingIsBegunWhileNothingCanBeMarked(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		begun := v.mail(time.Second)
		v.config.Window = 20
		v.outbox.renewErr = errors.New("the database is away")
		v.outbox.onSettle = func(context.Context, store.Settlement) error { return v.outbox.renewErr }
		v.outbox.append("a", 20)
		v.run()
		v.sleep(10 * time.Second)
		if *begun > 3 { // the first renewal comes after a second
			t.Errorf("%d were begun", *begun)
		}
	})
}

// TestALostLeaseIsNotRenewedAgain, although the batch goes on.
func TestALostLeaseIsNotRenewedAgain(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.outbox.leaseLost = true
		v.outbox.append("a", 1)
		v.run()
		v.sleep(v.config.ConfirmTimeout / 2)
		v.stop()
		if v.outbox.renewals != 1 {
			t.Errorf("%d renewals", v.outbox.renewals)
		}
	})
}

// TestP4ASlowDatabaseFinishesAMark: each attempt has more time, also while leases are renewed.
func TestP4ASlowDatabaseFinishesAMark(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.broker.answers = answerAll(publish.Confirmed)
		v.outbox.onSettle = func(ctx context.Context, _ store.Settlement) error {
			Wait(ctx, statementTimeout+time.Second)
			return ctx.Err()
		}
		v.outbox.append("a", 1)
		v.run()
		v.sleep(2 * time.Minute)
		v.want(1, "published")
	})
}

// TestP6AfterAnOutageOthersMarkFirst: a worker claims nothing for a while.
func TestP6AfterAnOutageOthersMarkFirst(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.mail(time.Second)
		v.config.Workers = 1
		var back time.Time
		v.outbox.onClaim = func(n int) (*store.Claim, error) {
			switch {
			case n <= 3:
				return nil, errors.New("the database is away")
			case back.IsZero():
				back = time.Now()
			case n == 5 && time.Since(back) < recoveryPause:
				t.Errorf("it claims %s after the outage", time.Since(back))
			}
			return nil, nil //nolint:nilnil // the fake's own claim
		}
		v.config.Window = 2
		v.outbox.append("a", 10)
		v.run()
		v.sleep(20 * time.Second)
	})
}

// TestP6NobodyClaimsWhileAWorkerCannotMark what it has sent.
func TestP6NobodyClaimsWhileAWorkerCannotMark(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		begun := v.mail(time.Second)
		v.config.Workers, v.config.Window = 2, 2
		first := v.outbox.append("a", 10)[0]
		v.outbox.onSettle = func(_ context.Context, s store.Settlement) error {
			if slices.ContainsFunc(s.Published, func(e store.Event) bool { return e.ID == first }) {
				return errors.New("it waits for a lock")
			}
			return nil
		}
		v.run()
		v.sleep(30 * time.Second)
		if *begun > 6 { // with what the other worker had claimed before
			t.Errorf("%d were begun", *begun)
		}
	})
}

// TestP4ASlowFunctionIsCalledOnceForEachEvent: nothing is retried or paused while it works.
func TestP4ASlowFunctionIsCalledOnceForEachEvent(t *testing.T) {
	t.Parallel()
	for takes, n := range map[time.Duration]int{20 * time.Millisecond: 1000, 2 * time.Second: 15, 30*time.Second - 1: 5} {
		inVirtualTime(t, func(v *virtual) {
			calls := v.mail(takes)
			v.config.Window, v.config.Workers = 2000, 2
			v.outbox.append("a", n)
			v.run()
			v.sleep(time.Duration(n) * takes)
			v.stop()
			if v.want(n, "published"); *calls != n || len(v.outbox.failures)+len(v.outbox.paused)+len(v.outbox.pending) > 0 {
				t.Errorf("%s: %d calls, failures %v, paused %v", takes, *calls, v.outbox.failures, v.outbox.paused)
			}
		})
	}
}
