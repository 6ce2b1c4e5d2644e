package deadletter_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/notification-service/internal/deadletter"
)

// TestAKeyStaysWhileTheMessageIsInTheQueue: each reading changes the broker's own headers.
func TestAKeyStaysWhileTheMessageIsInTheQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Add("malformed", time.Hour)
	f.Add("panicked", 0, func(p *amqp.Publishing) { p.MessageId, p.Body = "", nil })
	f.Publish(f.Requeue, amqp.Publishing{MessageId: "killer", Type: "order.created"})
	for range 2 { // one more than the queue's limit
		f.Check(f.Hold(f.Service, 1)[0].Nack(false, true))
	}
	f.Await(f.Letters, 3)
	first := keys(f.read())
	for range 3 {
		if again := keys(f.read()); !slices.Equal(again, first) {
			t.Errorf("the keys are %v, and were %v", again, first)
		}
	}
}

func keys(letters []deadletter.DeadLetter) (keys []string) {
	for _, l := range letters {
		keys = append(keys, l.Key)
	}
	return keys
}

func TestOnlyEqualMessagesHaveTheSameKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	same := func(p *amqp.Publishing) { p.MessageId, p.Headers["failed-at"] = "A", at }
	changes := map[string]func(*amqp.Publishing){
		"id":      func(p *amqp.Publishing) { p.MessageId = "B" },
		"no id":   func(p *amqp.Publishing) { p.MessageId = "" },
		"key":     func(p *amqp.Publishing) { p.Type = "order.cancelled" },
		"code":    func(p *amqp.Publishing) { p.Headers["failure-code"] = "panicked" },
		"reason":  func(p *amqp.Publishing) { p.Headers["failure-reason"] = "because" },
		"time":    func(p *amqp.Publishing) { p.Headers["failed-at"] = "2026-01-31T08:00:00Z" },
		"retries": func(p *amqp.Publishing) { p.Headers["retry-count"] = int64(7) },
		"body":    func(p *amqp.Publishing) { p.Body = []byte(strings.Repeat("x", 10_000)) },
		"shifted": func(p *amqp.Publishing) { p.MessageId, p.Type = "Ao", "rder.created" },
	}
	f.Add("malformed", 0, same)
	f.Add("malformed", 0, same)
	for _, change := range changes {
		f.Add("malformed", 0, same, change)
	}
	times := map[string]int{}
	for _, l := range f.read() {
		times[l.Key]++
		if l.ID == "" && l.Item() != "key:"+l.Key || l.ID != "" && l.Item() != l.ID {
			t.Errorf("%+v is recorded as %s", l, l.Item())
		}
	}
	if len(times) != len(changes)+1 || slices.Max(slices.Collect(values(times))) != 2 {
		t.Errorf("the keys occur so often: %v", times)
	}
}
