package outbox

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/publish"
)

// testTimeout bounds each wait of the tests with a database.
const testTimeout = 2 * time.Minute

// appendEvents commits n events, each one of an aggregate of its own.
func appendEvents(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	events := make([]Event, n)
	for i := range events {
		events[i] = Event{Topic: "order.created", Aggregate: "order", AggregateID: uuid.NewString(), Version: 1, Payload: []byte("{}")}
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return Append(t.Context(), tx, events...) })
	if err != nil {
		t.Fatal(err)
	}
}

// sink is a destination that counts the copies of each message.
type sink struct {
	publish.Destination
	mu        sync.Mutex
	copies    map[string]int
	arrived   chan struct{} // one for each message, as far as there is room
	onMessage func()
}

func newSink() *sink {
	s := &sink{copies: map[string]int{}, arrived: make(chan struct{}, 100_000)}
	s.Destination = publish.Func(1, func(_ context.Context, m publish.Message) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.copies[m.ID]++
		s.arrived <- struct{}{}
		if s.onMessage != nil {
			s.onMessage()
		}
		return nil
	})
	return s
}

func (s *sink) call(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onMessage = f
}

func (s *sink) counts() (messages, repeats int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.copies {
		repeats += n - 1
	}
	return len(s.copies), repeats
}

// awaitMessage waits for one more message.
func (s *sink) awaitMessage(t *testing.T) {
	t.Helper()
	select {
	case <-s.arrived:
	case <-time.After(testTimeout):
		t.Fatal("no message")
	}
}

// run makes a relay and runs it until the test ends, or stop. It wants that Run returns no error.
func run(t *testing.T, pool *pgxpool.Pool, to publish.Destination, c RelayConfig) (r *Relay, stop func()) {
	t.Helper()
	c.Logger = testConfig.Logger
	r, err := NewRelay(pool, to, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(testTimeout):
			t.Error("the relay does not stop")
		}
	})
	t.Cleanup(stop)
	return r, stop
}

// await waits until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(testTimeout); !ok(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", testTimeout, what)
		}
	}
}

func count(t *testing.T, pool *pgxpool.Pool, rows string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM "+rows).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func awaitPublished(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	await(t, fmt.Sprint(n, " published"), func() bool { return count(t, pool, "outbox_published") == n })
}

func TestARelayPublishesAndRecordsIt(t *testing.T) {
	t.Parallel()
	pool, to := dbtest.Migrated(t), newSink()
	appendEvents(t, pool, 900)
	r, stop := run(t, pool, to, RelayConfig{})
	awaitPublished(t, pool, 900)
	await(t, "healthy", func() bool { return r.Health() == nil })
	if err := r.Run(t.Context()); err == nil {
		t.Error("a second Run at the same time returned no error")
	}
	stop()
	if messages, repeats := to.counts(); messages != 900 || repeats != 0 {
		t.Errorf("%d messages and %d repeats", messages, repeats)
	}
	if n := count(t, pool, "outbox_queue") + count(t, pool, "outbox_claims"); n != 0 {
		t.Errorf("%d rows are left in the queue and the claims", n)
	}
	if r.Health() == nil {
		t.Error("healthy after its end")
	}
}

func TestAWakerWakesTheRelayOfAnotherProcess(t *testing.T) {
	t.Parallel()
	pool, to := dbtest.Migrated(t), newSink()
	r, _ := run(t, pool, to, RelayConfig{PollInterval: time.Hour})
	await(t, "listening", func() bool { return r.Stats().Listening })
	waker, ctx := NewWaker(pool), t.Context()
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	running.Go(func() { _ = waker.Run(ctx) })
	for n := range 3 {
		appendEvents(t, pool, 1)
		waker.Wake()
		awaitPublished(t, pool, n+1)
	}
	stop()
	running.Wait()
}

// TestABusyRelayNotifiesTheOthers: one relay is blocked, and another one has nothing to do.
func TestABusyRelayNotifiesTheOthers(t *testing.T) {
	t.Parallel()
	pool, blocked, idle := dbtest.Migrated(t), newSink(), newSink()
	release := make(chan struct{})
	blocked.call(func() { <-release })
	busy, _ := run(t, pool, blocked, RelayConfig{PollInterval: time.Hour, Workers: 1, Window: 1})
	await(t, "listening", func() bool { return busy.Stats().Listening })
	appendEvents(t, pool, 1)
	busy.Wake()
	blocked.awaitMessage(t)
	other, _ := run(t, pool, idle, RelayConfig{PollInterval: time.Hour})
	await(t, "listening", func() bool { return other.Stats().Listening })
	appendEvents(t, pool, 1)
	busy.Wake()
	idle.awaitMessage(t)
	close(release)
	awaitPublished(t, pool, 2)
}

// TestP12ShutdownFinishesWhatIsInFlight stops the relay while the destination has a message.
func TestP12ShutdownFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	pool, to := dbtest.Migrated(t), newSink()
	stopping := make(chan struct{})
	to.call(func() { <-stopping })
	appendEvents(t, pool, 10)
	_, stop := run(t, pool, to, RelayConfig{Workers: 1, Window: 5})
	to.awaitMessage(t)
	time.AfterFunc(50*time.Millisecond, func() { close(stopping) }) // after the context has ended
	stop()
	if published, claims := count(t, pool, "outbox_published"), count(t, pool, "outbox_claims"); published != 1 || claims != 0 {
		t.Errorf("%d published and %d claims, want the message in flight and none", published, claims)
	}
}

// TestP4ARelayOutlivesTerminatedConnections terminates all connections again and again. If that is
// between the commit of a claim and its answer, its events wait until the lease ends.
func TestP4ARelayOutlivesTerminatedConnections(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	pool, admin, to := withTables(t, url), dbtest.Pool(t, url), newSink()
	r, stop := run(t, pool, to, RelayConfig{
		Window: 20, PollInterval: 50 * time.Millisecond, ConfirmTimeout: time.Second, Lease: 5 * time.Second,
	})
	for n := range 5 {
		appendEvents(t, admin, 100)
		r.Wake()
		to.awaitMessage(t)
		_, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		if err != nil {
			t.Fatal(err)
		}
		awaitPublished(t, admin, 100*(n+1))
	}
	await(t, "listening again", func() bool { return r.Stats().Listening })
	stop()
}

// withTables makes the tables, and returns a pool.
func withTables(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool := dbtest.Pool(t, url)
	if _, err := pool.Exec(t.Context(), dbtest.Schema(t), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	return pool
}

// TestTwoOutboxesInOneDatabaseDoNotWaitForEachOther: the claims of one wait for a lock.
func TestTwoOutboxesInOneDatabaseDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	admin := dbtest.Pool(t, url)
	var pools []*pgxpool.Pool
	for _, schema := range []string{"a", "b"} {
		if _, err := admin.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
			t.Fatal(err)
		}
		pools = append(pools, withTables(t, url+"&search_path="+schema))
	}
	holder, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock('a.outbox_claims'::regclass::oid::bigint)"); err != nil {
		t.Fatal(err)
	}
	var sinks [2]*sink
	for i, pool := range pools {
		appendEvents(t, pool, 10)
		sinks[i] = newSink()
		run(t, pool, sinks[i], RelayConfig{})
	}
	awaitPublished(t, pools[1], 10)
	if n, _ := sinks[0].counts(); n != 0 {
		t.Errorf("the other has published %d, although its claims wait", n)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitPublished(t, pools[0], 10)
	for i, s := range sinks {
		if n, repeats := s.counts(); n != 10 || repeats != 0 {
			t.Errorf("outbox %d: %d messages, %d repeats; want its own 10", i, n, repeats)
		}
	}
}
