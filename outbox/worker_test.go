package outbox

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

func TestAWorkerPublishesUntilNothingIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(10)
		r := testRelay(events)
		stop := start(t, r, answerAll(publish.Confirmed))
		synctest.Wait()
		if n := events.count("published"); n != 10 {
			t.Errorf("%d published before the first poll, want 10", n)
		}
		stop()
	})
}

func TestAWakeUpDoesNotWaitForThePoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(0)
		r := testRelay(events)
		stop := start(t, r, answerAll(publish.Confirmed))
		synctest.Wait()

		began := time.Now()
		events.append()
		r.Wake()
		synctest.Wait()
		if n := events.count("published"); n != 1 || time.Since(began) != 0 {
			t.Errorf("%d published after %s, want 1 at once", n, time.Since(began))
		}
		stop()
	})
}

func TestThePollFindsEventsWithoutAWakeUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(0)
		r := testRelay(events)
		stop := start(t, r, answerAll(publish.Confirmed))
		synctest.Wait()
		events.append()
		time.Sleep(testConfig.PollInterval)
		synctest.Wait()
		if n := events.count("published"); n != 1 {
			t.Errorf("%d published, want 1", n)
		}
		stop()
	})
}

// TestP12ShutdownDoesNotCancelAClaim ends the context while the database has the claim and has
// not answered.
func TestP12ShutdownDoesNotCancelAClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		events := newFakeOutbox(1)
		events.onClaim = stop
		if err := testRelay(events).publishOn(ctx, answerAll(publish.Confirmed)); err != nil {
			t.Error(err)
		}
		if n := events.count("published"); n != 1 {
			t.Errorf("%d published, want the one that was claimed", n)
		}
	})
}

// TestP12ShutdownFinishesTheBatchInFlight ends the context while the broker has the batch
// and has not confirmed it.
func TestP12ShutdownFinishesTheBatchInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(10)
		ctx, stop := context.WithCancel(t.Context())
		broker := fakeBroker(func(messages []publish.Message) []publish.Result {
			stop()
			time.Sleep(time.Second)
			return answerAll(publish.Confirmed)(messages)
		})
		if err := testRelay(events).publishOn(ctx, broker); err != nil {
			t.Error(err)
		}
		if n := events.count("published"); n != testConfig.BatchSize {
			t.Errorf("%d published, want the %d of the batch in flight and no more", n, testConfig.BatchSize)
		}
	})
}

func TestP4AnUnknownOutcomeEndsTheSessionAndSpendsNothing(t *testing.T) {
	t.Parallel()
	closesChannel := fakeBroker(func(messages []publish.Message) []publish.Result {
		return slices.Repeat([]publish.Result{{Outcome: publish.Unknown, Err: publish.ErrSessionClosed}}, len(messages))
	})
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(8)
		r := testRelay(events)
		if err := r.publishOn(t.Context(), closesChannel); err == nil {
			t.Error("the relay went on using a channel in an unknown state")
		}
		if n := events.count("released"); n != testConfig.BatchSize {
			t.Errorf("%d released, want the batch of %d", n, testConfig.BatchSize)
		}
		// Any of them may be the cause. So the next session starts with a batch of one for each.
		events.claims = nil
		stop := start(t, r, answerAll(publish.Confirmed))
		synctest.Wait()
		stop()
		if want := []int{1, 1, 1, testConfig.BatchSize}; !slices.Equal(events.claims[:4], want) {
			t.Errorf("claims of %v, want %v first", events.claims, want)
		}
	})
}

// TestP4AllOfABatchAreSuspectsWhateverTheirErrors: the broker closes the channel while the batch
// is being sent, and the messages that were not sent have another error.
func TestP4AllOfABatchAreSuspectsWhateverTheirErrors(t *testing.T) {
	t.Parallel()
	closed := publish.Result{Outcome: publish.Unknown, Err: publish.ErrSessionClosed}
	unsent := publish.Result{Outcome: publish.Unknown, Err: errors.New("not sent")}
	for name, results := range map[string][]publish.Result{
		"the last was not sent":          {closed, closed, unsent},
		"the first was not sent":         {unsent, closed, closed},
		"only one error tells the cause": {unsent, closed, unsent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testRelay(newFakeOutbox(testConfig.BatchSize))
			err := r.publishOn(t.Context(), fakeBroker(func([]publish.Message) []publish.Result { return results }))
			if !errors.Is(err, publish.ErrSessionClosed) || r.suspects.Load() != int64(testConfig.BatchSize) {
				t.Errorf("%d suspects after %v, want all %d of the batch", r.suspects.Load(), err, testConfig.BatchSize)
			}
		})
	}
}

func TestAFailedMarkIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		events.markErr = errors.New("the database is restarting")
		stop := start(t, testRelay(events), answerAll(publish.Confirmed))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := events.count("published"); n != 1 {
			t.Errorf("%d published, want 1: without the mark it would be published again", n)
		}
		stop()
	})
}

func TestAFailedClaimDoesNotEndTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		events.claimErr = errors.New("the database is away")
		stop := start(t, testRelay(events), answerAll(publish.Confirmed))
		time.Sleep(10 * testConfig.PollInterval)
		events.mu.Lock()
		events.claimErr = nil
		events.mu.Unlock()
		time.Sleep(testConfig.PollInterval)
		synctest.Wait()
		if n := events.count("published"); n != 1 {
			t.Errorf("%d published after the database came back, want 1", n)
		}
		stop()
	})
}

// TestAFailedClaimDoesNotWaitForThePoll has a poll that is an hour away.
func TestAFailedClaimDoesNotWaitForThePoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, config := newFakeOutbox(1), testConfig
		config.PollInterval = time.Hour
		events.claimErr = errors.New("the connection was broken by a restart")
		r := relayWith(config, events)
		events.onClaim = func() {
			if len(events.claims) == 5 {
				events.claimErr = nil
			}
		}
		stop := start(t, r, answerAll(publish.Confirmed))
		time.Sleep(time.Second)
		synctest.Wait()
		if n := events.count("published"); n != 1 {
			t.Errorf("%d published a second later, want 1, after %d claims", n, len(events.claims))
		}
		stop()
	})
}

// countingBroker counts the channels that it opens.
type countingBroker struct {
	fakeBroker
	opened *int
}

func (c countingBroker) NewPublisher(window int) (publish.Publisher, error) {
	*c.opened++
	return c.fakeBroker.NewPublisher(window)
}

func TestP4AChannelOnWhichAQueueRefusedIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[publish.Outcome]int{publish.Confirmed: 1, publish.Returned: 1, publish.Refused: 2} {
		synctest.Test(t, func(t *testing.T) {
			opened := 0
			stop := start(t, testRelay(newFakeOutbox(2)), countingBroker{answerAll(outcome), &opened})
			synctest.Wait()
			stop()
			if opened != want {
				t.Errorf("outcome %d: %d channels, want %d", outcome, opened, want)
			}
		})
	}
}
