package outbox

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// TestP4ABrokerThatRefusesEverythingSpendsNoAttempts: a cluster without its majority.
func TestP4ABrokerThatRefusesEverythingSpendsNoAttempts(t *testing.T) {
	t.Parallel()
	for _, orders := range []int{1, 3, 5, 1000} {
		t.Run(fmt.Sprint(orders, " orders"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				events := newQueueOutbox(orders, "order.created", "order.confirmed")
				broker := &queueBroker{refuses: everything}
				r := testRelay(events)
				stop := start(t, r, fakeBroker(broker.publish))
				time.Sleep(time.Hour)
				synctest.Wait()
				if published, failed, attempts := events.counts(); published+failed+attempts != 0 {
					t.Errorf("%d published, %d failed, %d attempts; want none", published, failed, attempts)
				}
				if r.refusals.all() != (orders >= outageStreak) {
					t.Errorf("it reports an outage: %t", r.refusals.all())
				}
				if n, most := broker.messages(), 4*3600; n > most {
					t.Errorf("%d messages in an hour, want at most %d", n, most)
				}

				broker.set(nothing)
				time.Sleep(2 * lastProbePause)
				synctest.Wait()
				if published, _, _ := events.counts(); published != orders || r.refusals.all() {
					t.Errorf("afterwards %d published, want %d; an outage: %t", published, orders, r.refusals.all())
				}
				stop()
			})
		})
	}
}

// TestP4ARefusedEventFailsWhileOthersAreTaken: its queue is full, and those of the others are not.
func TestP4ARefusedEventFailsWhileOthersAreTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newQueueOutbox(40, "order.cancelled")
		broker := &queueBroker{refuses: func(m publish.Message) bool { return m.Topic == "order.cancelled" }}
		stop := start(t, testRelay(events), fakeBroker(broker.publish))
		for range 600 {
			events.add("order.created")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if published, failed, _ := events.counts(); published != 600 || failed != 40 {
			t.Errorf("%d published and %d failed, want 600 and 40", published, failed)
		}
		stop()
	})
}

// TestP9GoodEventsPassManyRefusedOnes: nothing else was published when the refusals began.
func TestP9GoodEventsPassManyRefusedOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newQueueOutbox(1000, "order.cancelled")
		broker := &queueBroker{refuses: func(m publish.Message) bool { return m.Topic == "order.cancelled" }}
		config := testConfig
		config.BatchSize = 500
		stop := start(t, relayWith(config, events), fakeBroker(broker.publish))
		time.Sleep(time.Minute)
		events.add("order.created")
		began := time.Now()
		for time.Since(began) < time.Hour {
			time.Sleep(time.Second)
			synctest.Wait()
			if published, _, _ := events.counts(); published == 1 {
				break
			}
		}
		if took := time.Since(began); took > 2*lastProbePause {
			t.Errorf("a good event waited %s", took)
		}
		stop()
	})
}

// TestP4AnOutageThatBeginsInABatchSpendsNoAttempts: the confirms before it say nothing about the
// refusals after it.
func TestP4AnOutageThatBeginsInABatchSpendsNoAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newQueueOutbox(100, "order.created")
		broker := &queueBroker{}
		broker.refuses = func(publish.Message) bool { return broker.got > 50 }
		stop := start(t, testRelay(events), fakeBroker(broker.publish))
		time.Sleep(time.Minute)
		broker.set(nothing)
		time.Sleep(time.Minute)
		synctest.Wait()
		if published, _, attempts := events.counts(); published != 100 || attempts != 0 {
			t.Errorf("%d published with %d attempts, want 100 with none", published, attempts)
		}
		stop()
	})
}

// TestAnOutageEndsWhenNothingIsLeftToPublish: another relay may have published the events.
func TestAnOutageEndsWhenNothingIsLeftToPublish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newQueueOutbox(10, "order.created")
		r := testRelay(events)
		stop := start(t, r, fakeBroker((&queueBroker{refuses: everything}).publish))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !r.refusals.all() {
			t.Error("no outage")
		}
		events.mu.Lock()
		for _, q := range events.queue {
			q.became = "published"
		}
		events.mu.Unlock()
		time.Sleep(2*outageMemory + lastProbePause)
		synctest.Wait()
		if r.refusals.all() {
			t.Error("still an outage")
		}
		stop()
	})
}

// TestAnOutageIsFoundAgainAfterAQuietTime: the session was gone for longer than an outage is
// remembered, and the broker refuses the same events again.
func TestAnOutageIsFoundAgainAfterAQuietTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := testRelay(newQueueOutbox(10, "order.created"))
		broker := fakeBroker((&queueBroker{refuses: everything}).publish)
		for range 2 {
			stop := start(t, r, broker)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if !r.refusals.all() {
				t.Error("no outage")
			}
			stop()
			if r.Stats().RefusesAll {
				t.Error("it reports an outage without a session")
			}
			time.Sleep(2 * outageMemory)
		}
	})
}

// TestAWorkerCanHaveClaimedWhenAnOutageBegins: another worker has found it meanwhile.
func TestAWorkerCanHaveClaimedWhenAnOutageBegins(t *testing.T) {
	t.Parallel()
	r := &refusals{refused: map[uuid.UUID]refusal{}, log: newLines(testConfig.Logger)}
	r.begin(time.Now())
	events := []store.Event{{Topic: "order.created"}, {Topic: "order.created"}, {Topic: "order.confirmed"}}
	if publish, wait := r.split(events); len(publish) != 2 || len(wait) != 1 {
		t.Errorf("%d to publish and %d to wait, want one of each key", len(publish), len(wait))
	}
}

// TestP4AnOutageSpendsNoAttemptOfAnEventRefusedBefore: the broker took others since then.
func TestP4AnOutageSpendsNoAttemptOfAnEventRefusedBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newQueueOutbox(1, "order.cancelled")
		broker := &queueBroker{refuses: func(m publish.Message) bool { return m.Topic == "order.cancelled" }}
		config := testConfig
		config.RetryBase, config.RetryCap = time.Minute, time.Minute
		stop := start(t, relayWith(config, events), fakeBroker(broker.publish))
		for range 10 { // one refusal that does not count, and one that does
			events.add("order.created")
			time.Sleep(time.Second)
		}
		broker.set(everything)
		for range outageStreak {
			events.add("order.created")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, failed, attempts := events.counts(); failed != 0 || attempts != 1 {
			t.Errorf("%d failed, %d attempts; want only the attempt before the outage", failed, attempts)
		}
		stop()
	})
}

// TestP9EachProbeOfAKeyBeginsWithAnotherEvent: so a good event behind refused ones is found.
func TestP9EachProbeOfAKeyBeginsWithAnotherEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := newQueueOutbox(6, "order.created")
		broker := &queueBroker{refuses: everything}
		config := testConfig
		config.BatchSize = 500
		stop := start(t, relayWith(config, events), fakeBroker(broker.publish))
		time.Sleep(2 * time.Minute)
		events.add("order.created") // it goes first, because it is new
		events.add("order.created")
		events.mu.Lock()
		good := events.queue[len(events.queue)-1].id.String()
		events.mu.Unlock()
		broker.set(func(m publish.Message) bool { return m.ID != good })
		time.Sleep(8 * 2 * lastProbePause)
		synctest.Wait()
		if published, _, _ := events.counts(); published != 1 {
			t.Error("the good event still waits")
		}
		stop()
	})
}
