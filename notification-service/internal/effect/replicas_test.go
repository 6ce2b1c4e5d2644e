package effect_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/env/check"
)

// TestP7ReplicasWithTheSameOrdersDoNotDeadlock: two replicas handle batches with events of the same
// orders, in different sequences. Each order gets e-mails with rising versions, and at last the
// newest.
func TestP7ReplicasWithTheSameOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	const orders, versions, batch = 16, 12, 32
	f := newFixture(t)
	replicas := []fixture{f, f.replica()}
	ids := make([]uuid.UUID, orders)
	var all []rabbitmq.Message
	for i := range ids {
		ids[i] = uuid.New()
		for version := range versions {
			all = append(all, event(ids[i], version+1))
		}
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var together sync.WaitGroup
	for n, r := range replicas {
		together.Go(func() {
			// Each has half of the messages for the first time, and then the others'.
			for i := range len(all) / batch {
				from := (i*2 + n) % (len(all) / batch) * batch
				if err := r.handler.Handle(t.Context(), all[from:from+batch]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	together.Wait()
	f.wantRecorded(all...)
	for _, id := range ids {
		if got := query[bool](f, `SELECT array_agg(version ORDER BY seq) = array_agg(version ORDER BY version) AND max(version) = $2
			FROM outbox_status WHERE aggregate_id = $1`, id.String(), versions); !got {
			t.Errorf("order %s: e-mails in the sequence %v", id,
				query[[]int](f, "SELECT array_agg(version ORDER BY seq) FROM outbox_status WHERE aggregate_id = $1", id.String()))
		}
	}
	if n := query[int](f, "SELECT count(*) FROM order_progress WHERE last_version = $1", versions); n != orders {
		t.Errorf("%d of %d orders have their newest version", n, orders)
	}
}

// TestP7AnOlderEventWaitsForTheNewerOneOfAnotherReplica, and is superseded by it.
func TestP7AnOlderEventWaitsForTheNewerOneOfAnotherReplica(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	order := uuid.New()
	tx, err := f.pool.Begin(t.Context())
	check.Must(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "INSERT INTO order_progress VALUES ($1, 2)", order); err != nil {
		t.Fatal(err)
	}
	handled := make(chan error, 1)
	go func() { handled <- f.handler.Handle(t.Context(), []rabbitmq.Message{event(order, 1)}) }()
	for query[int](f, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())") == 0 {
		time.Sleep(time.Millisecond)
	}
	check.Must(t, tx.Commit(t.Context()))
	check.Must(t, <-handled)
	f.wantEmails(order)
	f.wantCounted(0, 1, 0)
}

// TestATryThatIsRolledBackCountsNothing: the inbox tries a message again if other transactions were in
// its way.
func TestATryThatIsRolledBackCountsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.pool.Exec(t.Context(), `CREATE SEQUENCE tries;
		CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('tries') = 1 THEN RAISE EXCEPTION USING ERRCODE = '40001'; END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER fail_once BEFORE INSERT ON outbox_queue FOR EACH STATEMENT EXECUTE FUNCTION fail_once()`)
	check.Must(t, err)
	order := uuid.New()
	f.handle(event(order, 1))
	f.wantEmails(order, 1)
	f.wantCounted(1, 0, 0)
}
