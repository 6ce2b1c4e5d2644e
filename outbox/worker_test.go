package outbox

import (
	"context"
	"errors"
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
		events.append("a", 1)
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
		events.append("a", 1)
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
		r := testRelay(events)
		r.to = fakeDestination{answerAll(publish.Confirmed)}
		if err := r.work(ctx); err != nil {
			t.Error(err)
		}
		if n := events.count("published"); n != 1 {
			t.Errorf("%d published, want the one that was claimed", n)
		}
	})
}

// TestP12ShutdownWaitsForAnswers ends the context while the broker has the events and has not
// answered.
func TestP12ShutdownWaitsForAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, broker := newFakeOutbox(10), &slowBroker{}
		stop := start(t, testRelay(events), broker)
		synctest.Wait()
		time.AfterFunc(500*time.Millisecond, func() { broker.answer(publish.Result{Outcome: publish.Confirmed}) })
		stop()
		if n := events.count("published"); n != testConfig.Window {
			t.Errorf("%d published, want the %d in flight and no more", n, testConfig.Window)
		}
	})
}

// TestP12ShutdownHasALimit: what has no answer by then is released.
func TestP12ShutdownHasALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := testConfig
		config.ConfirmTimeout = time.Hour
		events := newFakeOutbox(3)
		stop := start(t, relayWith(config, events), &slowBroker{})
		synctest.Wait()
		began := time.Now()
		stop()
		if n, took := events.count("released"), time.Since(began); n != 3 || took != 10*time.Second {
			t.Errorf("%d released after %s, want 3 after 10s", n, took)
		}
	})
}

func TestAFailedMarkIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newFakeOutbox(1)
		events.settleErr = errors.New("the database is restarting")
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
			if len(events.claims) == 4 {
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
