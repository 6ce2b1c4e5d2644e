package consumer

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/notification"
)

// recordBatch records new messages in one batch, and returns their errors.
func (b *bench) recordBatch(messages ...rabbitmq.Message) (errs []error) {
	b.Helper()
	var batch []*message
	for _, m := range messages {
		one := &message{Delivery: b.delivery(m)}
		if err := b.consumer.read(b.Context(), one); err != nil {
			b.Fatal(err)
		}
		batch = append(batch, one)
	}
	for _, r := range b.consumer.record(b.Context(), batch) {
		errs = append(errs, r.err)
	}
	return errs
}

// hits fails for every batch with this message.
func hits(bad rabbitmq.Message, err error) func([]notification.Request) error {
	return func(requests []notification.Request) error {
		if slices.ContainsFunc(requests, func(r notification.Request) bool { return r.ID == idOf(bad) }) {
			return err
		}
		return nil
	}
}

// TestP9ABadMessageSpoilsNoOtherOfItsBatch: the others are recorded, each alone.
func TestP9ABadMessageSpoilsNoOtherOfItsBatch(t *testing.T) {
	t.Parallel()
	db := newBench(t).db
	for name, err := range map[string]error{
		"a transient error": errFailed,
		"a permanent error": permanent{errFailed},
		"a deadlock":        &pgconn.PgError{Code: "40P01"},
		"a lock":            &pgconn.PgError{Code: "55P03"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := benchOn(t, db)
			b.begin()
			good, bad, better := aMessage(), aMessage(), aMessage()
			b.effect.record = hits(bad, err)
			if errs := b.recordBatch(good, bad, better); errs[0] != nil || errs[1] == nil || errs[2] != nil {
				t.Errorf("errors %v, want one in the middle", errs)
			}
			b.effect.record = nil
			b.taken = nil
			b.want(good, "parse", "record", "send", "ack") // recorded, and not yet sent
			if n := testutil.ToFloat64(b.consumer.metrics.duplicates); n != 0 {
				t.Errorf("%v duplicates", n)
			}
		})
	}
}

func TestP9ABadMessageSpendsNoRetriesOfItsNeighbours(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.begin()
	bad := aMessage()
	b.effect.record = hits(bad, errFailed)
	for range 30 {
		c.start(t.Context(), b.delivery(aMessage()))
	}
	c.start(t.Context(), b.delivery(bad))
	c.running.Wait()
	b.wantCopy(bad, "short", map[string]any{RetryCountHeader: int64(1)})
	if n := b.count("ack"); n != 31 {
		t.Errorf("%d acks, want 31", n)
	}
}

func TestAPanicSpoilsNoOtherOfItsBatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.begin()
	bad := aMessage()
	b.effect.record = func(requests []notification.Request) error {
		if hits(bad, errFailed)(requests) != nil {
			panic("a bug")
		}
		return nil
	}
	if errs := b.recordBatch(aMessage(), bad); errs[0] != nil || errs[1] == nil {
		t.Errorf("errors %v, want the second", errs)
	}
}

// TestADatabaseThatIsAwayIsAskedOnce for a whole batch.
func TestADatabaseThatIsAwayIsAskedOnce(t *testing.T) {
	t.Parallel()
	db := newBench(t).db
	for _, code := range []string{"57P01", "53100", "25006"} { // ended, disk full, read-only
		b := benchOn(t, db)
		b.begin()
		b.effect.record = func([]notification.Request) error { return &pgconn.PgError{Code: code} }
		errs := b.recordBatch(aMessage(), aMessage(), aMessage(), aMessage())
		if n := b.count("record"); n != 1 || slices.Contains(errs, nil) {
			t.Errorf("%s: asked %d times, errors %v", code, n, errs)
		}
	}
}

// TestP9ADatabaseThatIsAwayIsNoMessagesFault connects to a port that nobody listens at.
func TestP9ADatabaseThatIsAwayIsNoMessagesFault(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), "postgres://postgres@127.0.0.1:1/", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	b := benchOn(t, db)
	c := b.begin()
	for range 8 {
		c.start(t.Context(), b.delivery(aMessage()))
	}
	for deadline := time.Now().Add(10 * time.Second); len(c.Waiting()) == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if !slices.Equal(c.Waiting(), []string{Database}) {
		t.Errorf("%v is waited for, want the database", c.Waiting())
	}
}
