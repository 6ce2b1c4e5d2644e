package consumer

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// recordBatch records new messages in one batch, and returns their errors.
func (b *fixture) recordBatch(messages ...rabbitmq.Message) (errs []error) {
	b.Helper()
	var batch []*delivery
	for _, m := range messages {
		d := newDelivery(b.Context(), b.delivery(m))
		if err := b.consumer.validate(d); err != nil {
			b.Fatal(err)
		}
		batch = append(batch, d)
	}
	for _, r := range b.consumer.record(b.Context(), batch) {
		errs = append(errs, r.err)
	}
	return errs
}

// failsFor fails for every batch with this message.
func failsFor(bad rabbitmq.Message, err error) func([]notification.Request) error {
	return func(requests []notification.Request) error {
		if slices.ContainsFunc(requests, func(r notification.Request) bool { return r.ID == idOf(bad) }) {
			return err
		}
		return nil
	}
}

// TestP9ABadMessageFailsAloneInItsBatch: the others are recorded, each alone.
func TestP9ABadMessageFailsAloneInItsBatch(t *testing.T) {
	t.Parallel()
	db := newFixture(t).db
	for name, err := range map[string]error{
		"a transient error": errFailed,
		"a permanent error": permanent{errFailed},
		"a deadlock":        &pgconn.PgError{Code: "40P01"},
		"a lock":            &pgconn.PgError{Code: "55P03"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fixtureOn(t, db)
			b.begin()
			good, bad, better := newMessage(), newMessage(), newMessage()
			b.effect.record = failsFor(bad, err)
			if errs := b.recordBatch(good, bad, better); errs[0] != nil || errs[1] == nil || errs[2] != nil {
				t.Errorf("errors %v, want one in the middle", errs)
			}
			b.effect.record = nil
			b.done = nil
			b.want(good, "parse", "record", "send", "ack") // recorded, and not yet sent
			if n := testutil.ToFloat64(b.consumer.metrics.duplicates); n != 0 {
				t.Errorf("%v duplicates", n)
			}
		})
	}
}

func TestP9ABadMessageSpendsNoRetriesOfItsNeighbours(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	c := b.begin()
	bad := newMessage()
	b.effect.record = failsFor(bad, errFailed)
	for range 30 {
		c.start(t.Context(), b.delivery(newMessage()))
	}
	c.start(t.Context(), b.delivery(bad))
	c.running.Wait()
	b.wantCopy(bad, "short", map[string]any{RetryCountHeader: int64(1)})
	if n := b.count("ack"); n != 31 {
		t.Errorf("%d acks, want 31", n)
	}
}

func TestAMessageThatPanicsFailsAloneInItsBatch(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.begin()
	bad := newMessage()
	b.effect.record = func(requests []notification.Request) error {
		if failsFor(bad, errFailed)(requests) != nil {
			panic("a bug")
		}
		return nil
	}
	if errs := b.recordBatch(newMessage(), bad); errs[0] != nil || errs[1] == nil {
		t.Errorf("errors %v, want the second", errs)
	}
}

// TestADatabaseThatIsAwayIsAskedOnce for a whole batch.
func TestADatabaseThatIsAwayIsAskedOnce(t *testing.T) {
	t.Parallel()
	db := newFixture(t).db
	for _, code := range []string{"57P01", "53100", "25006"} { // ended, disk full, read-only
		b := fixtureOn(t, db)
		b.begin()
		b.effect.record = func([]notification.Request) error { return &pgconn.PgError{Code: code} }
		errs := b.recordBatch(newMessage(), newMessage(), newMessage(), newMessage())
		if n := b.count("record"); n != 1 || slices.Contains(errs, nil) {
			t.Errorf("%s: asked %d times, errors %v", code, n, errs)
		}
	}
}

// TestP9ADatabaseThatIsAwaySpendsNoRetries connects to a port without a listener.
func TestP9ADatabaseThatIsAwaySpendsNoRetries(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), "postgres://postgres@127.0.0.1:1/", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	b := fixtureOn(t, db)
	c := b.begin()
	for range 8 {
		c.start(t.Context(), b.delivery(newMessage()))
	}
	for deadline := time.Now().Add(10 * time.Second); len(c.Unavailable()) == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if !slices.Equal(c.Unavailable(), []string{Database}) {
		t.Errorf("%v is waited for, want the database", c.Unavailable())
	}
}

// TestP9ALockedRowDelaysOnlyItsMessage: a transaction has locked the row of one message. The
// others of its batch are recorded meanwhile.
func TestP9ALockedRowDelaysOnlyItsMessage(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.begin()
	good, locked, better := newMessage(), newMessage(), newMessage()
	err := b.db.InTx(t.Context(), func(tx pgx.Tx) error {
		const note = "INSERT INTO processed_messages (message_id, processed_at) VALUES (@id, now()) RETURNING 1"
		if _, err := postgres.ReadOne(t.Context(), tx, note, postgres.Args{"id": idOf(locked)}, pgx.RowTo[int]); err != nil {
			return err
		}
		errs := b.recordBatch(good, locked, better)
		if errs[0] != nil || !postgres.Contended(errs[1]) || errs[2] != nil {
			t.Errorf("errors %v, want a lock in the middle", errs)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
