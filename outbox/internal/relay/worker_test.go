package relay

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// TestAWakeUpDoesNotWaitForThePoll, and neither do the events that are more than a window.
func TestAWakeUpDoesNotWaitForThePoll(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.broker.answers = answerAll(publish.Confirmed)
		v.run()
		v.outbox.append("a", 10)
		v.relay.Wake()
		v.want(10, "published")
	})
}

func TestThePollFindsEventsWithoutAWakeUp(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.broker.answers = answerAll(publish.Confirmed)
		v.run()
		v.outbox.append("a", 1)
		v.sleep(testConfig.PollInterval)
		v.want(1, "published")
	})
}

// TestAnEventThatBecomesDueDoesNotWaitForThePoll.
func TestAnEventThatBecomesDueDoesNotWaitForThePoll(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.config.PollInterval = time.Hour
		v.broker.answers = answerAll(publish.Confirmed)
		in := 2.0
		v.outbox.onClaim = func(n int) (*store.Claim, error) {
			return []*store.Claim{{NextDue: &in}, nil}[min(n, 2)-1], nil
		}
		v.outbox.append("a", 1)
		v.run()
		for _, want := range []int{0, 0, 1} {
			v.want(want, "published")
			v.sleep(time.Second)
		}
	})
}

// TestARelayIsBusyUntilAWorkerReceivesTheWakeUp: meanwhile the relay of another process may
// publish the events.
func TestARelayIsBusyUntilAWorkerReceivesTheWakeUp(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		r := v.newRelay()
		want := func(busy bool, when string) {
			t.Helper()
			synctest.Wait()
			if r.Busy() != busy {
				t.Errorf("busy is %t, want %t, %s", !busy, busy, when)
			}
		}
		r.Wake()
		want(true, "without a session")
		v.run()
		want(false, "with nothing to do")
		for range (testConfig.Window + 1) / 2 {
			v.outbox.append("a", 1)
			r.Wake()
			want(false, "with room in the window")
			v.sleep(smallBatchPause)
		}
		v.outbox.append("a", 1)
		r.Wake()
		want(true, "while half of the window waits for the broker")
		v.broker.answer(taken)
		v.sleep(2 * smallBatchPause)
		want(false, "when the broker has answered")
	})
}

// TestARelayHasABoundedNumberOfBytesInFlight, however many events the windows of its workers allow,
// and although nothing is answered.
func TestARelayHasABoundedNumberOfBytesInFlight(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.config.Workers, v.config.Window = 2, 1000
		large := make([]byte, eventBytes)
		for range 40 { // as many topics, so that no pause helps
			v.outbox.append(uuid.NewString(), store.MaxClaimBytes/eventBytes)
		}
		for i := range v.outbox.pending {
			v.outbox.pending[i].Payload = large
		}
		v.run()
		for range 100 {
			v.sleep(v.config.ConfirmTimeout / 20)
			if n := v.relay.bytes.Load(); n > maxBytes+eventBytes { // a probe comes on top
				t.Fatalf("%d bytes are in flight", n)
			}
		}
	})
}

// TestNothingIsClaimedWhileTheDestinationBlocks, and the wait for answers does not go on meanwhile.
func TestNothingIsClaimedWhileTheDestinationBlocks(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.outbox.append("a", 1)
		v.run()
		v.broker.block(true)
		v.outbox.append("good", 10)
		v.sleep(time.Hour)
		if n := len(v.broker.copies); n != 1 || len(v.outbox.failures) != 0 || len(v.outbox.paused) != 0 {
			t.Errorf("%d sent, failures %v, paused %v", n, v.outbox.failures, v.outbox.paused)
		}
		v.broker.block(false)
		v.sleep(time.Second / 2)
		if len(v.broker.copies) == 1 {
			t.Error("nothing is sent after the block")
		}
	})
}

// TestEachAnswerIsRecordedSoon, also if it is neither the first nor the last one of its claim.
func TestEachAnswerIsRecordedSoon(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{100 * time.Millisecond, emails().SettleAfter} {
		inVirtualTime(t, func(v *virtual) {
			const n, each = 20, 50 * time.Millisecond
			v.config.Window, v.config.PollInterval, v.config.SettleAfter = n, time.Hour, after
			v.broker.answers = answerAll(publish.Confirmed)
			v.broker.after = func(i int) time.Duration { return time.Duration(i) * each }
			v.outbox.append("a", n)
			v.run()
			for i := range n {
				v.sleep(each)
				if p, late := v.outbox.count("published"), i+1-int(after/each); p < late {
					t.Errorf("%d published of %d answers", p, i+1)
				}
			}
		})
	}
}

// TestAWorkerRestsWhileAnAnswerIsMissing, whatever the other answers of the claim are.
func TestAWorkerRestsWhileAnAnswerIsMissing(t *testing.T) {
	t.Parallel()
	for outcome := publish.Unknown; outcome <= publish.NotSent; outcome++ {
		inVirtualTime(t, func(v *virtual) {
			v.config.SlowAfter = v.config.ConfirmTimeout
			v.broker.answers = func(messages []publish.Message) []publish.Result {
				return slices.Concat(answerAll(outcome)(messages[:1]), answerAll(silent)(messages[1:]))
			}
			v.outbox.append("a", 2)
			v.run()
			v.sleep(v.config.ConfirmTimeout - time.Second)
			if n := v.broker.turns(); n > 200 {
				t.Errorf("after outcome %d the loop turned about %d times in 9 s", outcome, n)
			}
		})
	}
}

// TestAFailedStatementIsTriedAgainSoon, and not with the poll or another session: the connections
// of the pool were broken by a restart.
func TestAFailedStatementIsTriedAgainSoon(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.config.PollInterval = time.Hour
		broken, settled := errors.New("the connection is broken"), 0
		v.outbox.onClaim = func(n int) (*store.Claim, error) {
			if n < 5 {
				return nil, broken
			}
			return nil, nil
		}
		v.outbox.onSettle = func(context.Context, store.Settlement) error {
			if settled++; settled == 1 {
				return broken
			}
			return nil
		}
		v.broker.answers = answerAll(publish.Confirmed)
		v.outbox.append("a", 1)
		v.run()
		v.sleep(time.Second)
		v.want(1, "published")
	})
}

// TestP9AnEventWithoutPayloadIsFailedAndOthersArePublished: for example after a partial restore.
func TestP9AnEventWithoutPayloadIsFailedAndOthersArePublished(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.outbox.onClaim = func(n int) (*store.Claim, error) {
			return []*store.Claim{{Token: uuid.New(), NoPayload: []store.Event{{ID: uuid.New(), Topic: "a"}}, More: true}, nil}[min(n, 2)-1], nil
		}
		v.broker.answers = answerAll(publish.Confirmed)
		v.outbox.append("a", 1)
		v.run()
		v.sleep(testConfig.PollInterval / 2)
		v.want(1, "failed")
		v.want(1, "published")
		if f := v.outbox.failures; len(f) != 1 || f[0].Code != "no_payload" || f[0].Counts || f[0].Reason == "" {
			t.Errorf("failures %+v", f)
		}
	})
}

// TestP12ShutdownDoesNotCancelAClaim ends the context while the database has the claim and has
// not answered. The event is not sent, and need not wait for the end of a lease.
func TestP12ShutdownDoesNotCancelAClaim(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.outbox.onClaim = func(int) (*store.Claim, error) { v.cancel(); return nil, nil }
		v.broker.answers = answerAll(publish.Confirmed)
		v.outbox.append("a", 1)
		v.run()
		v.stop()
		v.want(1, "retried")
	})
}

// TestP12ShutdownHasALimit: what has no answer by then is released. When the context ends does not
// matter. A database that hangs delays the end only a little: the attempt that runs then has little
// time.
func TestP12ShutdownHasALimit(t *testing.T) {
	t.Parallel()
	for after := time.Duration(0); after < 40*time.Second; after += 3 * time.Second {
		for _, hangs := range []bool{false, true} {
			inVirtualTime(t, func(v *virtual) {
				late := time.Duration(0)
				if hangs {
					late, v.broker.answers = 2*lastStatementTimeout, answerAll(publish.Confirmed)
					v.outbox.onSettle = func(ctx context.Context, _ store.Settlement) error { <-ctx.Done(); return ctx.Err() }
				}
				v.config.ConfirmTimeout = time.Hour
				v.outbox.append("a", 3)
				v.run()
				v.sleep(after)
				began := time.Now()
				v.stop()
				if took, limit := time.Since(began), v.relay.config.ShutdownTimeout; took < limit || took > limit+late {
					t.Errorf("after %s it takes %s to end", after, took)
				}
				if !hangs {
					v.want(3, "retried")
				}
			})
		}
	}
}

// TestP12WhatIsConfirmedIsRecordedAtTheEnd, although the database has just failed, and another
// event of the claim waits to be sent alone.
func TestP12WhatIsConfirmedIsRecordedAtTheEnd(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.config.SettleAfter, v.config.ShutdownTimeout = time.Microsecond, 2*firstRetryPause // the second pause is longer than what is left
		failed := 0
		v.outbox.onSettle = func(context.Context, store.Settlement) error {
			if failed++; failed <= 2 {
				return errors.New("the database is restarting")
			}
			return nil
		}
		v.outbox.append("a", 3)
		v.outbox.pending[1].EndedSession, v.outbox.pending[2].EndedSession = true, true
		v.run()
		v.broker.answerOne(taken)
		synctest.Wait() // the second one is sent, and has no answer
		v.stop()
		v.want(1, "published")
		v.want(2, "retried")
	})
}
