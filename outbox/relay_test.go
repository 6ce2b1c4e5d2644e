package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/publish"
)

var quiet = slog.New(slog.DiscardHandler)

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
	must(t, err)
}

// sink is a destination that counts the copies of each message.
type sink struct {
	publish.Destination
	mu        sync.Mutex
	copies    map[string]int
	onMessage func()
}

func newSink() *sink {
	s := &sink{copies: map[string]int{}}
	s.Destination = publish.Func(func(_ context.Context, m publish.Message) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.copies[m.ID]++
		if s.onMessage != nil {
			s.onMessage()
		}
		return nil
	}, publish.FuncConfig{OneDestination: true, Calls: 1})
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

// run makes a relay and runs it until the test ends, or stop. It wants that Run returns no error.
func run(t *testing.T, pool *pgxpool.Pool, to publish.Destination, c RelayConfig) (r *Relay, stop func()) {
	t.Helper()
	c.Logger = quiet
	r, err := NewRelay(pool, to, c)
	must(t, err)
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

var await = dbtest.Await

var must = dbtest.Must // many lines have it

func count(t *testing.T, pool *pgxpool.Pool, rows string) (n int) {
	t.Helper()
	must(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+rows).Scan(&n))
	return n
}

func awaitPublished(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	await(t, fmt.Sprint(n, " published"), func() bool { return count(t, pool, "outbox_done WHERE status = 'published'") == n })
}

// TestADestinationOfAnEventsOwn gets its events, and when it refuses them, their topic pauses for
// it alone.
func TestADestinationOfAnEventsOwn(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	to := publish.Func(func(_ context.Context, m publish.Message) error {
		if m.Topic != "created" || m.Destination == "bad" {
			return fmt.Errorf("%s of %q", m.Topic, m.Destination)
		}
		return nil
	}, publish.FuncConfig{})
	run(t, pool, to, RelayConfig{})
	for _, destination := range []string{"bad", "bad", "bad", "", "good", ""} {
		must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return Append(t.Context(), tx, Event{Topic: "created", Destination: destination, Payload: []byte("{}")})
		}))
	}
	await(t, "a pause", func() bool {
		return count(t, pool, "outbox_topics WHERE topic = 'bad/created' AND reason LIKE '%of \"bad\"'") == 1
	})
	await(t, "what is sent", func() bool { return count(t, pool, "outbox_status WHERE status = 'published'") == 3 })
	if n := count(t, pool, "outbox_topics"); n != 1 {
		t.Errorf("%d topics are paused", n)
	}
	if n := count(t, pool, "outbox_status WHERE topic = 'good/created' AND status = 'published'"); n != 1 {
		t.Error("the event of the good destination is not shown with it")
	}
}

func TestARelayPublishesAndRecordsIt(t *testing.T) {
	t.Parallel()
	pool, to := dbtest.Migrated(t), newSink()
	appendEvents(t, pool, 900)
	var called atomic.Int64
	r, stop := run(t, pool, to, RelayConfig{OnPublished: func(ctx context.Context, events []Event) {
		called.Add(int64(len(events)))
		var marked bool
		err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM outbox_done WHERE id = $1 AND status = 'published')", events[0].ID).Scan(&marked)
		if err != nil || !marked || events[0].Aggregate != "order" {
			t.Errorf("OnPublished is called with %+v, which is marked: %v, %v", events[0], marked, err)
		}
	}})
	awaitPublished(t, pool, 900)
	await(t, "healthy", func() bool { return r.Health() == nil })
	if err := r.Run(t.Context()); err == nil {
		t.Error("a second Run at the same time returned no error")
	}
	stop()
	if messages, repeats := to.counts(); messages != 900 || repeats != 0 {
		t.Errorf("%d messages and %d repeats", messages, repeats)
	}
	if called.Load() != 900 {
		t.Errorf("OnPublished is called with %d events", called.Load())
	}
	if n := count(t, pool, "outbox_queue") + count(t, pool, "outbox_claims"); n != 0 {
		t.Errorf("%d rows are left in the queue and the claims", n)
	}
	if r.Health() == nil {
		t.Error("healthy after its end")
	}
}

// withTables makes the tables, and returns a pool.
func withTables(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool := dbtest.Pool(t, url)
	_, err := pool.Exec(t.Context(), dbtest.Schema(t), pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	return pool
}

// TestTwoOutboxesInOneDatabaseDoNotWaitForEachOther: the claims of one wait for a lock.
func TestTwoOutboxesInOneDatabaseDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	admin := dbtest.Pool(t, url)
	var pools []*pgxpool.Pool
	for _, schema := range []string{"a", "b"} {
		_, err := admin.Exec(t.Context(), "CREATE SCHEMA "+schema)
		must(t, err)
		pools = append(pools, withTables(t, url+"&search_path="+schema))
	}
	holder, err := admin.Begin(t.Context())
	must(t, err)
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended('claims ' || 'a.outbox_claims'::regclass::oid, 0))")
	must(t, err)
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
	must(t, holder.Rollback(t.Context()))
	awaitPublished(t, pools[0], 10)
	for i, s := range sinks {
		if n, repeats := s.counts(); n != 10 || repeats != 0 {
			t.Errorf("outbox %d: %d messages, %d repeats; want its own 10", i, n, repeats)
		}
	}
}

// TestRunReturnsWhatCannotMendItself: there are no tables, or the destination says so, or it gives
// up.
func TestRunReturnsWhatCannotMendItself(t *testing.T) {
	t.Parallel()
	wrong := errors.New("the exchange has another type")
	for _, test := range []struct {
		pool *pgxpool.Pool
		to   publish.Destination
		want error // nil: any
	}{
		{dbtest.Pool(t, dbtest.URL(t)), newSink(), ErrNoSchema},
		{dbtest.Migrated(t), endsAtOnce{newSink(), wrong}, wrong},
		{dbtest.Migrated(t), endsAtOnce{newSink(), nil}, nil},
	} {
		r, err := NewRelay(test.pool, test.to, RelayConfig{Logger: quiet})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		if err := r.Run(ctx); err == nil || ctx.Err() != nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("error %v, want %v", err, test.want)
		}
		cancel()
	}
}

// endsAtOnce is a destination whose KeepConnected returns at once.
type endsAtOnce struct {
	*sink
	result error
}

func (e endsAtOnce) KeepConnected(context.Context, func(context.Context, publish.Session) error) error {
	return e.result
}

// TestNewRelayNamesTheFieldThatCannotWork. The zero value works.
func TestNewRelayNamesTheFieldThatCannotWork(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nowhere")
	must(t, err)
	defer pool.Close()
	to := publish.Func(func(context.Context, publish.Message) error { return nil }, publish.FuncConfig{OneDestination: true, Calls: 1})
	for field, c := range map[string]RelayConfig{
		"Workers":         {Workers: -1},
		"Window":          {Window: 5001},
		"PollInterval":    {PollInterval: -time.Second},
		"Lease":           {Lease: 5*time.Second - 1},
		"ConfirmTimeout":  {ConfirmTimeout: time.Nanosecond},
		"GiveUp":          {GiveUp: -1},
		"RetryBase":       {RetryBase: -time.Second},
		"RetryCap":        {RetryBase: time.Hour, RetryCap: time.Minute},
		"Retention":       {Retention: -time.Hour},
		"ShutdownTimeout": {ShutdownTimeout: -time.Second},
		"AppID":           {AppID: strings.Repeat("x", 256)},
	} {
		if _, err := NewRelay(pool, to, c); err == nil || !strings.Contains(err.Error(), "RelayConfig."+field+" ") {
			t.Errorf("%s: error %v", field, err)
		}
	}
	_, noPool := NewRelay(nil, to, RelayConfig{})
	_, noDestination := NewRelay(pool, nil, RelayConfig{})
	if _, err := NewRelay(pool, to, RelayConfig{}); noPool == nil || noDestination == nil || err != nil {
		t.Errorf("without a pool %v, without a destination %v, the zero value %v", noPool, noDestination, err)
	}
	c, _ := RelayConfig{}.settings().Checked()
	if c.Workers != 2 || c.Window != 2000 || c.Lease != 20*time.Second || c.Logger == nil || c.TracerProvider == nil {
		t.Errorf("defaults %+v", c)
	}
}

// TestABusyRelayNotifiesTheOthers: one relay is blocked, and another one has nothing to do.
func TestABusyRelayNotifiesTheOthers(t *testing.T) {
	t.Parallel()
	pool, blocked, idle := dbtest.Migrated(t), newSink(), newSink()
	sent, release := make(chan struct{}), make(chan struct{})
	blocked.call(sync.OnceFunc(func() { close(sent); <-release }))
	busy, _ := run(t, pool, blocked, RelayConfig{PollInterval: time.Hour, Workers: 1, Window: 1})
	await(t, "listening", func() bool { return busy.Stats().Listening })
	appendEvents(t, pool, 1)
	busy.Wake()
	<-sent
	other, _ := run(t, pool, idle, RelayConfig{PollInterval: time.Hour})
	await(t, "listening", func() bool { return other.Stats().Listening })
	for n := range 3 { // the first one may be found without a notification: the other has just begun
		appendEvents(t, pool, 1)
		busy.Wake()
		awaitPublished(t, pool, n+1)
	}
	close(release)
	awaitPublished(t, pool, 4)
}
