package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/outboxcli/dlq"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/page/pagetest"
	"example.com/transactional-outbox/internal/postgres"
	mailpage "example.com/transactional-outbox/notification-service/internal/page"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// fixture is a page with a database of its own, and with dead letters that are not at a broker.
type fixture struct {
	pagetest.Site
	db      *postgres.DB
	letters *fakeLetters
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	url := servers.Database(t)
	db, err := postgres.Open(t.Context(), url, 4)
	check(t, err)
	t.Cleanup(db.Close)
	check(t, outbox.Migrate(t.Context(), db.Pool()))
	p, err := page.New(page.Config{
		Service: "notification-service", Users: pagetest.Users(t), Peer: "order-service", PeerPage: "http://orders.example",
	})
	check(t, err)
	f := fixture{db: db, letters: &fakeLetters{}}
	mailpage.Register(p, mailpage.Dependencies{
		DB: db, Queue: rabbitmq.Queue{Name: "test." + uuid.NewString()}, Letters: f.letters.open,
		Broker:           rabbitmq.Config{URL: servers.BrokerURL(t), Name: t.Name()},
		ConsumerWaitsFor: func() []string { return []string{"the exchange orders"} },
		RelayWaitsFor:    func() []string { return []string{"the mail server"} },
	})
	f.Site = pagetest.Serve(t, p)
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fail commits e-mails of one order, of which the first has failed.
func (f fixture) fail(versions int) (order string, ids []uuid.UUID) {
	f.Helper()
	order = uuid.NewString()
	for v := range versions {
		ids = append(ids, uuid.New())
		err := f.db.InTx(f.Context(), func(tx pgx.Tx) error {
			return outbox.Append(f.Context(), tx, outbox.Event{
				ID: ids[v], Topic: "example.com", Aggregate: "order", AggregateID: order, Version: v + 1, Payload: []byte(`{"to":"o'neil@example.com"}`),
			})
		})
		if err != nil {
			f.Fatal(err)
		}
	}
	_, err := f.db.Pool().Exec(f.Context(), `UPDATE outbox_queue SET failed_at = now(), available_at = 'infinity', failure_code = 'invalid',
		failure_reason = '550 <o''neil@example.com> is unknown' WHERE id = $1`, ids[0])
	if err != nil {
		f.Fatal(err)
	}
	return order, ids
}

// supersede does what the claim of a newer event does.
func (f fixture) supersede(id uuid.UUID) {
	f.Helper()
	_, err := f.db.Pool().Exec(f.Context(), `WITH done AS (DELETE FROM outbox_queue WHERE id = $1 RETURNING *)
		INSERT INTO outbox_discarded (id, slot, superseded, failed_at, retry_count) SELECT id, slot, true, failed_at, retry_count FROM done`, id)
	if err != nil {
		f.Fatal(err)
	}
}

// fakeLetters are dead letters in memory.
type fakeLetters struct {
	mu       sync.Mutex
	letters  []rabbitmq.DeadLetter
	readings int
	err      error
}

func (l *fakeLetters) open(ctx context.Context, use func(context.Context, dlq.Letters) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readings++
	if l.err != nil {
		return l.err
	}
	return use(ctx, &cursor{l: l})
}

type cursor struct {
	l    *fakeLetters
	next int
}

func (c *cursor) Count() int { return len(c.l.letters) }

func (c *cursor) Next() (rabbitmq.DeadLetter, bool, error) {
	if c.next == len(c.l.letters) {
		return rabbitmq.DeadLetter{}, false, nil
	}
	c.next++
	return c.l.letters[c.next-1], true, nil
}

func (c *cursor) Replay(context.Context, rabbitmq.DeadLetter, map[string]any) publish.Result {
	panic("the page changes nothing")
}
func (c *cursor) Discard(rabbitmq.DeadLetter) error { panic("the page changes nothing") }
func (c *cursor) Removed() error                    { return nil }

func TestTheOverviewCountsEmailsAndQueues(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fail(3)
	var n page.Numbers
	counts := map[string]int64{}
	for deadline := time.Now().Add(2 * time.Minute); ; { // until there is a session
		check(t, json.Unmarshal([]byte(f.Get("rob", "/numbers").Body), &n))
		for _, node := range n.Nodes {
			counts[node.Name] = node.Count
		}
		if !strings.Contains(f.Get("rob", "/numbers").Body, "does not answer") || time.Now().After(deadline) {
			break
		}
	}
	for name, want := range map[string]int64{"waiting": 2, "failed": 1, "committed": 3, "published": 0, "halted": 0, "queue": -1, "retry.30s": -1, "retry.5m": -1, "dead": -1} {
		if got, known := counts[name]; got != want || !known {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if gates := strings.Join(n.Gates, "; "); gates != "the relay waits for the mail server; the consumer waits for the exchange orders" {
		t.Errorf("the gates are %s", gates)
	}
	f.Get("rob", "/").Want(http.StatusOK, "there is no such queue yet")
}

// TestAFailedEmailIsReplayedUnlessANewerOneHasSupersededIt, and no page shows its address.
func TestAFailedEmailIsReplayedUnlessANewerOneHasSupersededIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	order, ids := f.fail(2)
	_, alone := f.fail(1)
	f.Get("rob", "/failed").Want(200, "Failed e-mails", ids[0].String(), "What the mail server said", "o***@example.com").WantNot("neil")
	f.Get("rob", "/orders/"+order).Want(200, "Its way to the mail server", "failed after", "http://orders.example/orders/"+order).WantNot("neil")
	if a := f.Get("rob", "/find?q="+order).Want(303); a.Location != "/orders/"+order {
		t.Errorf("find leads to %s", a.Location)
	}
	f.Get("rob", "/orders/"+uuid.NewString()).Want(404, "No e-mail of this order is known")

	form := url.Values{"selected": {"replay"}, "id": {ids[0].String(), alone[0].String()}}
	decision := f.Post("ann", "/failed/preview", form).Want(200, "Replay these e-mails?").WantNot("neil").Form("/failed/decide")
	decision.Set("count", "2")
	f.supersede(ids[0])
	a := f.Post("ann", "/failed/decide", decision).Want(303)
	f.Get("ann", a.Location).Want(200, "1 e-mail left as they were", "is not sent: a newer event of order "+order+" has superseded it")
	f.Get("rob", "/failed").Want(200).WantNot(ids[0].String()).WantNot(alone[0].String())
}

// TestOneReadingOfTheDeadLettersServesAll who look at them: meanwhile nobody else sees them.
func TestOneReadingOfTheDeadLettersServesAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.letters.letters = []rabbitmq.DeadLetter{{
		Message: rabbitmq.Message{ID: "A", RoutingKey: "order.created"}, Code: "malformed", Reason: strings.Repeat("x", 150) + " o'neil@example.com",
	}, {Code: "unknown"}}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			f.Get("rob", "/dead").Want(200, "order.created", "malformed", "(no id)", "2 of 2 messages", "notification-service dlq").WantNot("neil")
		})
	}
	all.Wait()
	if f.letters.readings != 1 {
		t.Errorf("%d readings", f.letters.readings)
	}
}

func TestDeadLettersThatCannotBeReadAreNoEmptyList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.letters.err = errors.New("secret of the broker")
	f.Get("rob", "/dead").Want(http.StatusServiceUnavailable, "cannot be read").WantNot("secret", "There are no dead letters")
}
