package outbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// queueOutbox is an outbox with due times and attempts.
type queueOutbox struct {
	fakeOutbox
	queue []*queued
}

type queued struct {
	id       uuid.UUID
	key      string
	due      time.Time
	claimed  bool
	attempts int
	became   string
}

// newQueueOutbox has n due events, with keys in turn.
func newQueueOutbox(n int, keys ...string) *queueOutbox {
	o := &queueOutbox{}
	for i := range n {
		o.add(keys[i%len(keys)])
	}
	return o
}

func (o *queueOutbox) add(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, &queued{id: uuid.New(), key: key, due: time.Now()})
}

func (o *queueOutbox) Claim(_ context.Context, _ string, limit int, _ time.Duration) (store.Claim, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.claimErr != nil {
		return store.Claim{}, o.claimErr
	}
	c := store.Claim{Token: uuid.New()}
	slices.SortStableFunc(o.queue, func(a, b *queued) int { return a.due.Compare(b.due) })
	for _, q := range o.queue {
		if q.became != "" || q.claimed || q.due.After(time.Now()) {
			continue
		}
		if c.More = len(c.Events) == limit; c.More {
			break
		}
		q.claimed = true
		c.Events = append(c.Events, store.Event{ID: q.id, Topic: q.key, RetryCount: q.attempts})
	}
	return c, nil
}

func (o *queueOutbox) end(id uuid.UUID, end func(*queued)) {
	i := slices.IndexFunc(o.queue, func(q *queued) bool { return q.id == id })
	o.queue[i].claimed = false
	end(o.queue[i])
}

func (o *queueOutbox) MarkPublished(_ context.Context, _ uuid.UUID, ids []uuid.UUID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		o.end(id, func(q *queued) { q.became = "published" })
	}
	return nil
}

func (o *queueOutbox) Reschedule(_ context.Context, _ uuid.UUID, failures []store.Failure) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range failures {
		o.end(f.ID, func(q *queued) {
			q.due = time.Now().Add(f.Delay)
			q.attempts += boolToInt(f.Counts)
		})
	}
	return len(failures), nil
}

// Release releases all events, because the tests have one worker.
func (o *queueOutbox) Release(context.Context, uuid.UUID) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.queue {
		q.claimed = false
	}
	return true, nil
}

func (o *queueOutbox) Fail(_ context.Context, _ uuid.UUID, f store.Failure) (time.Time, int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end(f.ID, func(q *queued) { q.became = "failed" })
	return time.Now(), 1, nil
}

// counts returns how many events became what, and how many attempts are spent.
func (o *queueOutbox) counts() (published, failed, attempts int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.queue {
		published += boolToInt(q.became == "published")
		failed += boolToInt(q.became == "failed")
		attempts += q.attempts
	}
	return published, failed, attempts
}

// queueBroker refuses what refuses selects, and counts the messages that it gets.
type queueBroker struct {
	mu      sync.Mutex
	refuses func(publish.Message) bool
	got     int
}

func (b *queueBroker) publish(messages []publish.Message) []publish.Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	results := make([]publish.Result, len(messages))
	for i, m := range messages {
		b.got++
		results[i] = publish.Result{Outcome: publish.Confirmed}
		if b.refuses(m) {
			results[i] = refused
		}
	}
	return results
}

func (b *queueBroker) set(refuses func(publish.Message) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuses = refuses
}

func (b *queueBroker) messages() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got
}

func everything(publish.Message) bool { return true }
func nothing(publish.Message) bool    { return false }
