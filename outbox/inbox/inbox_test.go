package inbox_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/outbox/inbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
	"example.com/transactional-outbox/outbox/internal/handling"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit bounds each wait of a test. No promise rests on it.
const limit = time.Minute

// message is one of any broker.
type message string

func (m message) MessageID() string { return string(m) }

// newMessages returns n messages with ids of their own, in no order.
func newMessages(n int) []message {
	messages := make([]message, n)
	for i := range messages {
		messages[i] = message(rand.Text())
	}
	return messages
}

// fixture is a database with an inbox and a table for effects.
type fixture struct {
	*testing.T
	pool *pgxpool.Pool
}

var must = dbtest.Must // many lines have it

// newFixture makes a database of the test's own. settings are parameters of its URL: "name=value".
func newFixture(t *testing.T, settings ...string) fixture {
	t.Helper()
	server := dbtest.URL(t)
	owner := dbtest.Pool(t, server)
	must(t, inbox.Migrate(t.Context(), owner))
	f := fixture{t, owner}
	f.exec("CREATE TABLE effects (id bigint GENERATED ALWAYS AS IDENTITY, message text)")
	f.exec("ALTER TABLE processed_messages ADD COLUMN later text") // as a later version may
	f.pool = dbtest.Pool(t, strings.Join(append([]string{server}, settings...), "&"))
	return f
}

func (f fixture) exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.pool.Exec(f.Context(), sql, args...); err != nil {
		f.Fatalf("%s: %v", sql, err)
	}
}

func (f fixture) count(sql string, args ...any) (n int) {
	f.Helper()
	if err := f.pool.QueryRow(f.Context(), sql, args...).Scan(&n); err != nil {
		f.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (f fixture) rows() int { f.Helper(); return f.count("SELECT count(*) FROM processed_messages") }

// effects returns the messages that have had their effect, in its order.
func (f fixture) effects() []message {
	f.Helper()
	rows, _ := f.pool.Query(f.Context(), "SELECT message FROM effects ORDER BY id")
	effects, err := pgx.CollectRows(rows, pgx.RowTo[message])
	must(f, err)
	return effects
}

// inbox writes an effect for each message.
func (f fixture) inbox(consumer string, options ...inbox.Option) *inbox.Inbox[message] {
	return inbox.Once(f.pool, consumer, effect, options...)
}

func effect(ctx context.Context, tx pgx.Tx, m message) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects (message) VALUES ($1)", string(m))
	return err
}

func (f fixture) handle(in *inbox.Inbox[message], batch ...message) {
	f.Helper()
	if err := in.Handle(f.Context(), batch); err != nil {
		f.Error(err)
	}
}

// awaitLock waits until a statement waits for the lock of another.
func (f fixture) awaitLock() {
	f.Helper()
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	dbtest.Await(f, "a statement that waits for a lock", func() bool { return f.count(waiting) > 0 })
}

// TestP5AMessageHasItsEffectOnce in every mode in which pgx sends queries, and whatever the
// defaults of the role are: each transaction states what it needs.
func TestP5AMessageHasItsEffectOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "default_query_exec_mode="+mode, "default_transaction_isolation=serializable",
				"default_transaction_read_only=on", "synchronous_commit=off", "lock_timeout=0", "DateStyle=German")
			batch := append(newMessages(3), `quote " ' backslash \ brace } <&> ü`)
			var settings []string
			once := func(options ...inbox.Option) *inbox.Inbox[message] {
				return inbox.Once(f.pool, "a", func(ctx context.Context, tx pgx.Tx, m message) error {
					settings = append(settings, "")
					return errors.Join(effect(ctx, tx, m), tx.QueryRow(ctx, `SELECT concat_ws(', ', current_setting('transaction_isolation'),
						current_setting('lock_timeout'), current_setting('synchronous_commit'))`).Scan(&settings[len(settings)-1]))
				}, options...)
			}
			in, patient := once(), once(inbox.LockTimeout(1500*time.Millisecond))
			f.handle(in)
			f.handle(in, batch[1])
			f.handle(in, append(batch[:3:3], batch[0])...)
			f.handle(patient, append(batch, batch[3])...)
			f.handle(patient, batch...)
			if want := append(slices.Repeat([]string{"read committed, 1s, on"}, 3), "read committed, 1500ms, on"); !slices.Equal(settings, want) {
				t.Errorf("settings %q, want %q", settings, want)
			}
			if want := []message{batch[1], batch[0], batch[2], batch[3]}; !slices.Equal(f.effects(), want) {
				t.Errorf("effects %q, want %q", f.effects(), want)
			}
			if now, err := in.Ready(t.Context()); err != nil || now.IsZero() {
				t.Errorf("ready at %s: %v", now, err)
			}
			if n, err := in.Prune(t.Context(), 10); err != nil || n != 0 || f.rows() != len(batch) {
				t.Errorf("pruned %d of %d rows, error %v", n, f.rows(), err)
			}
		})
	}
}

// TestP5OneOfManyIsTheFirst handles one message in twenty transactions at once.
func TestP5OneOfManyIsTheFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in, m := f.inbox("a"), newMessages(1)[0]
	var deliveries sync.WaitGroup
	for range 20 {
		deliveries.Go(func() { f.handle(in, m) })
	}
	deliveries.Wait()
	if got := f.effects(); len(got) != 1 {
		t.Errorf("%d effects, want 1", len(got))
	}
}

// TestBatchesInOppositeOrdersDoNotDeadlock: both transactions insert in the order of the ids. Half
// of the messages are known: their rows are locked in that order too.
func TestBatchesInOppositeOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const rounds, size = 20, 50
	var effects atomic.Int32
	in := inbox.OnceBatch(f.pool, "a", func(_ context.Context, _ pgx.Tx, messages []message) error {
		effects.Add(int32(len(messages)))
		return nil
	})
	for range rounds {
		batch := newMessages(size)
		f.handle(in, batch[:size/2]...)
		reversed := slices.Clone(batch)
		slices.Reverse(reversed)
		var both sync.WaitGroup
		both.Go(func() { f.handle(in, batch...) }) // a deadlock is an error
		both.Go(func() { f.handle(in, reversed...) })
		both.Wait()
	}
	if n := effects.Load(); n != rounds*size {
		t.Errorf("%d effects of %d messages", n, rounds*size)
	}
}

// TestP5ABatchWaitsForAnotherThatHasItsMessages. What is new depends on how the other one ends.
func TestP5ABatchWaitsForAnotherThatHasItsMessages(t *testing.T) {
	t.Parallel()
	failure := errors.New("the effect failed")
	for name, outcome := range map[string]error{"commits": nil, "rolls back": failure} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			shared, own := newMessages(1)[0], newMessages(1)[0]
			second := make(chan error)
			first := inbox.Once(f.pool, "a", func(ctx context.Context, tx pgx.Tx, m message) error {
				go func() { second <- f.inbox("a").Handle(f.Context(), []message{own, shared}) }()
				f.awaitLock()
				return errors.Join(outcome, effect(ctx, tx, m))
			})
			if err := first.Handle(t.Context(), []message{shared}); !errors.Is(err, outcome) {
				t.Error(err)
			}
			if err := <-second; err != nil {
				t.Error(err)
			}
			got := f.effects()
			if want := 2; len(got) != want || !slices.Contains(got, shared) {
				t.Errorf("effects %q, want those of %q and %q", got, own, shared)
			}
		})
	}
}

// TestContentionIsTriedAgainInPlace, if the message is alone. A retry would take 30 s.
func TestContentionIsTriedAgainInPlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for code, want := range map[string]int{"55P03": 5, "40P01": 5, "40001": 5, "23505": 1} {
		for _, size := range []int{1, 2} {
			for _, mended := range []bool{true, false} {
				batch, calls := newMessages(size), 0
				in := inbox.OnceBatch(f.pool, "a", func(context.Context, pgx.Tx, []message) error {
					if calls++; mended && calls == 5 {
						return nil
					}
					return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code})
				})
				err, wantCalls := in.Handle(t.Context(), batch), want
				if size > 1 {
					wantCalls = 1
				}
				if calls != wantCalls || (err == nil) != (mended && wantCalls == 5) {
					t.Errorf("%s, %d messages: %d calls, want %d; error %v", code, size, calls, wantCalls, err)
				}
			}
		}
	}
}

// dated is a message of a broker that knows when it was published.
type dated struct {
	message
	at time.Time
}

func (d dated) PublishedAt() time.Time { return d.at }

// TestP5AMessageOlderThanTheRetentionIsADeadLetter: its id may be deleted. A known one is known.
// So is one whose time is far ahead. One without a time is handled.
func TestP5AMessageOlderThanTheRetentionIsADeadLetter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in := inbox.Once(f.pool, "a", func(ctx context.Context, tx pgx.Tx, m dated) error { return effect(ctx, tx, m.message) }, inbox.Retention(time.Hour))
	for id, test := range map[message]struct {
		at   time.Time
		want string
	}{
		"unknown": {time.Time{}, ""}, "young": {time.Now().Add(-50 * time.Minute), ""}, "old": {time.Now().Add(-time.Hour), "too-old"},
		"1970": {time.Unix(0, 0), ""}, "before 1970": {time.Unix(-1, 0), ""},
		"a clock that is ahead": {time.Now().Add(23 * time.Hour), ""}, "milliseconds as seconds": {time.Unix(time.Now().UnixMilli(), 0), "malformed"},
	} {
		err := in.Handle(t.Context(), []dated{{id, test.at}})
		if code := deadLetterCode(err); code != test.want || (err == nil) != (test.want == "") {
			t.Errorf("%s: %q, %v", id, code, err)
		}
	}
	if err := in.Handle(t.Context(), []dated{{"young", time.Now().Add(-2 * time.Hour)}}); err != nil {
		t.Errorf("a known message: %v", err)
	}
	if got := f.effects(); len(got) != 5 {
		t.Errorf("effects %q", got)
	}
}

// TestTheConsumerFindsTheInbox in the context of the call, whatever called it.
func TestTheConsumerFindsTheInbox(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in, found := f.inbox("a"), any(nil)
	ctx := handling.With(t.Context(), func(own any) { found = own })
	if err := in.Handle(ctx, newMessages(1)); err != nil || found != in {
		t.Errorf("found %v: %v", found, err)
	}
}

// TestAnErrorOfTheHandlerRollsAllBack, and so do a panic, and a statement that failed although the
// handler does not return its error. The next delivery finds nothing of it.
func TestAnErrorOfTheHandlerRollsAllBack(t *testing.T) {
	t.Parallel()
	failure := errors.New("the effect failed")
	for name, test := range map[string]struct {
		fail func(ctx context.Context, tx pgx.Tx) error
		want error
	}{
		"an error":    {func(context.Context, pgx.Tx) error { return failure }, failure},
		"a panic":     {func(context.Context, pgx.Tx) error { panic(failure) }, failure},
		"a statement": {func(ctx context.Context, tx pgx.Tx) error { _, _ = tx.Exec(ctx, "SELECT 1/0"); return nil }, pgx.ErrTxCommitRollback},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, batch := newFixture(t), newMessages(3)
			in := inbox.Once(f.pool, "a", func(ctx context.Context, tx pgx.Tx, m message) error {
				if m == batch[2] {
					return test.fail(ctx, tx)
				}
				return effect(ctx, tx, m)
			})
			if err := handleOrPanic(t.Context(), in, batch); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if n := f.rows() + len(f.effects()); n != 0 || f.pool.Stat().AcquiredConns() != 0 {
				t.Errorf("%d rows are left, %d connections are not back", n, f.pool.Stat().AcquiredConns())
			}
			f.handle(f.inbox("a"), batch...)
			if got := f.effects(); !slices.Equal(got, batch) {
				t.Errorf("effects %q, want %q", got, batch)
			}
		})
	}
}

// handleOrPanic also returns the error of a panic.
func handleOrPanic(ctx context.Context, in *inbox.Inbox[message], batch []message) (err error) {
	defer func() {
		if failure, ok := recover().(error); ok {
			err = failure
		}
	}()
	return in.Handle(ctx, batch)
}
