package systemtest

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/servertest"
)

// ledger is a durable queue that gets a copy of every event. It outlives the broker,
// as a tap does not.
const ledger = "ledger"

// at does one thing on a channel of its own to the broker.
func (s *system) at(do func(*amqp.Channel) error) {
	s.Helper()
	conn, err := amqp.Dial(s.brokerURL)
	must(s.T, err)
	defer func() { _ = conn.Close() }()
	channel, err := conn.Channel()
	must(s.T, err)
	must(s.T, do(channel))
}

// keepLedger declares the ledger and binds it, whatever of it is there already.
func (s *system) keepLedger() {
	s.Helper()
	s.bind(ledger, "#", nil)
}

// bind makes a quorum queue for what is published under a key, and what is missing
// up to it.
func (s *system) bind(queue, key string, arguments amqp.Table) {
	s.Helper()
	all := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	maps.Copy(all, arguments)
	s.at(func(c *amqp.Channel) error {
		if err := c.ExchangeDeclare(exchange, "topic", true, false, false, false, nil); err != nil {
			return err
		}
		if _, err := c.QueueDeclare(queue, true, false, false, false, all); err != nil {
			return err
		}
		return c.QueueBind(queue, key, exchange, false, nil)
	})
}

// readLedger empties the ledger into a tap, from now on.
func (s *system) readLedger() *tap {
	s.Helper()
	p := &tap{T: s.T, copies: map[string]int{}}
	p.consume(p.dial(s.brokerURL), ledger)
	return p
}

// wantLedger wants every order of the load to be published by itself, each event that
// is published to be in the ledger, and no attempt to be spent.
func (s *system) wantLedger(l *load) {
	s.Helper()
	events := one[int](s, s.orders, "SELECT count(*) FROM outbox_events")
	s.awaitCount(s.orders, events, published)
	copies := s.readLedger()
	copies.awaitMessages(events)
	if lost := one[int](s, s.orders, "SELECT count(*) FROM outbox_events WHERE NOT id = ANY ($1::uuid[])", copies.ids()); lost != 0 {
		s.Errorf("%d events are published and nowhere", lost)
	}
	if known := one[int](s, s.orders, "SELECT count(*) FROM outbox_events WHERE aggregate_id = ANY ($1::uuid[])", l.placed); known != l.count() || known == 0 {
		s.Errorf("%d events of %d orders", known, l.count())
	}
	if blamed := one[int](s, s.orders, "SELECT count(*) FROM outbox_events WHERE retry_count > 0 OR failed_at IS NOT NULL"); blamed != 0 {
		s.Errorf("the broker's trouble spent the attempts of %d events", blamed)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		s.Errorf("%d orders were not taken: %v", len(l.failed), l.failed[0])
	}
	s.Logf("%d events, %d copies beyond the first", events, copies.repeats())
}

func (p *tap) ids() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.copies))
}

// proxied returns a proxy before the broker, and the setting that leads a service through
// it.
func (s *system) proxied(service string) (proxy *servertest.Proxy, setting string) {
	s.Helper()
	u, err := url.Parse(servertest.As(service, s.brokerURL))
	must(s.T, err)
	proxy = servertest.NewProxy(s, u.Host)
	u.Host = proxy.Addr()
	return proxy, "AMQP_URL=" + u.String()
}

// watch makes the outbox remember, in the tables claims and regrets, each claim of an
// event, and each event that was published and then was not.
func (s *system) watch() {
	s.Helper()
	_, err := s.orders.Exec(s.Context(), `
		CREATE TABLE claims (event_id uuid);
		CREATE TABLE regrets (event_id uuid);
		CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
			IF NEW.status = 'in_progress' THEN INSERT INTO claims VALUES (NEW.id); END IF;
			IF OLD.status = 'published' AND NEW.status <> 'published' THEN INSERT INTO regrets VALUES (NEW.id); END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER watch AFTER UPDATE ON outbox_events FOR EACH ROW EXECUTE FUNCTION watch()`)
	must(s.T, err)
}

const (
	claims     = "SELECT count(*) FROM claims"
	regrets    = "SELECT count(*) FROM regrets"
	inProgress = "SELECT count(*) FROM outbox_events WHERE status = 'in_progress'"
)

// event is put into the outbox past the service: what it never writes itself.
type event struct{ key, payload string }

// events returns so many harmless ones.
func events(n int) []event {
	return slices.Repeat([]event{{"order.created", "{}"}}, n)
}

// commit puts events of an order each into the outbox, all at once, and returns their
// ids.
func (s *system) commit(events ...event) []string {
	s.Helper()
	var ids, keys, payloads []string
	for _, e := range events {
		ids, keys, payloads = append(ids, uuid.NewString()), append(keys, e.key), append(payloads, e.payload)
	}
	_, err := s.orders.Exec(s.Context(), `
		INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
		SELECT id, 'order', id, 1, key, payload::jsonb
		FROM unnest($1::uuid[], $2::text[], $3::text[]) AS e (id, key, payload)`, ids, keys, payloads)
	must(s.T, err)
	return ids
}

// wantFailed waits until an event is failed with this code, and wants its row to say
// how many attempts it had. It returns the one copy in the dead-letter queue.
func (s *system) wantFailed(id, code string, attempts int) (dead amqp.Delivery) {
	s.Helper()
	s.awaitCount(s.orders, 1, "SELECT count(*) FROM outbox_events WHERE status = 'failed' AND id = '"+id+"'")
	row := one[string](s, s.orders, "SELECT failure_code || ' ' || retry_count FROM outbox_events WHERE id = $1", id)
	if want := fmt.Sprintf("%s %d", code, attempts); row != want {
		s.Errorf("failed as %q, want %q", row, want)
	}
	dead = s.deadLetter()
	if dead.MessageId != id || dead.Headers["failure-code"] != code || dead.Headers["retry-count"] != int64(attempts) {
		s.Errorf("the dead letter is %s %v, want that of %s", dead.MessageId, dead.Headers, id)
	}
	if dead.Headers["failure-reason"] == "" {
		s.Errorf("the dead letter has no reason: %v", dead.Headers)
	}
	at, _ := dead.Headers["failed-at"].(string)
	if failed := one[time.Time](s, s.orders, "SELECT failed_at FROM outbox_events WHERE id = $1", id); at != failed.UTC().Format(time.RFC3339Nano) {
		s.Errorf("the dead letter failed at %q, its event at %s", at, failed)
	}
	return dead
}

// deadLetter takes the next copy from the dead-letter queue.
func (s *system) deadLetter() (dead amqp.Delivery) {
	s.Helper()
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	s.at(func(c *amqp.Channel) error {
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-ask.C {
			d, ok, err := c.Get("order-service.dlq", true)
			if dead = d; ok || err != nil {
				return err
			}
		}
		return fmt.Errorf("no dead letter came")
	})
	return dead
}

// wantNoDeadLetter wants the dead-letter queue to be empty, when all is done.
func (s *system) wantNoDeadLetter() {
	s.Helper()
	s.at(func(c *amqp.Channel) error {
		dead, ok, err := c.Get("order-service.dlq", true)
		if ok {
			s.Errorf("another dead letter: %s %v", dead.MessageId, dead.Headers)
		}
		return err
	})
}

// awaitMetric waits until a series of the service's metrics has a value, and fails when
// it goes beyond.
func (s *service) awaitMetric(series string, want float64) {
	s.Helper()
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); ; <-ask.C {
		got := s.metric(series)
		if got == want {
			return
		}
		if got > want || time.Now().After(deadline) {
			s.Fatalf("%s is %v, want %v", series, got, want)
		}
	}
}

func (s *service) metric(series string) (value float64) {
	s.Helper()
	response, err := http.Get(fmt.Sprintf("http://%s/metrics", s.await("answering operators")["address"]))
	must(s.T, err)
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			value, err = strconv.ParseFloat(text, 64)
			must(s.T, err)
			return value
		}
	}
	s.Fatalf("there is no series %s", series)
	return 0
}

// duration reads an attribute of a log line.
func duration(t *testing.T, r record, attribute string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(fmt.Sprint(r[attribute]))
	must(t, err)
	return d
}
