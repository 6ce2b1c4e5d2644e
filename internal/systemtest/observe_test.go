package systemtest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/internal/observe"
	"example.com/transactional-outbox/internal/servertest"
)

const (
	repository     = "../.."
	scrapeInterval = 500 * time.Millisecond
	rateInterval   = "2s" // four scrapes, as Grafana's $__rate_interval
)

// driven are the series that observed.drive raises above zero. Whoever shows them has to
// show that.
var driven = []string{
	`http_request_duration_seconds_count{job="order-service", method="POST", code="2xx"}`,
	`outbox_events_total{status="published"}`,
	`outbox_events_total{status="failed"}`,
	`outbox_events{status="failed"}`,
	"outbox_retries_total", "outbox_retry_exhaustions_total", "outbox_dlq_published_total",
	`consumer_messages_total{outcome="success"}`,
	`consumer_messages_total{outcome="retry"}`,
	`consumer_messages_total{outcome="dlq"}`,
	"consumer_processing_failed_total", "consumer_retries_total", "consumer_dlq_published_total",
	"order_to_notification_seconds_count",
	`rabbitmq_detailed_queue_messages{queue="notification-service.dlq"}`,
	`rabbitmq_detailed_queue_messages{queue="order-service.dlq"}`,
	`rabbitmq_detailed_queue_consumers{queue="notification-service"}`,
	"outbox_relay_up", "consumer_up",
}

// observed is a whole system with a Prometheus that asks all of it.
type observed struct {
	*system
	orders, notifications *service
	prometheus            *observe.Prometheus
	began                 time.Time
}

// TestEveryQueryReturnsSeries has orders, a retry, a failed event and dead letters, and
// then asks a real Prometheus what each panel and each alert asks.
func TestEveryQueryReturnsSeries(t *testing.T) {
	t.Parallel()
	o := observeSystem(t)
	o.drive()
	queries, err := observe.Queries(repository, rateInterval)
	must(t, err)
	if len(queries) < 100 {
		t.Errorf("only %d queries were found", len(queries))
	}
	o.awaitAll(append(queries, selectorsOf(queries)...))
	o.awaitAlerts("DeadLettersWait notification-service.dlq", "DeadLettersWait order-service.dlq", "OutboxEventsFailed ")
}

func observeSystem(t *testing.T) *observed {
	t.Helper()
	broker := servertest.RabbitMQ(t, servertest.MetricsPlugin)
	s := newSystemOn(t, database, broker)
	o := &observed{system: s, began: time.Now(), orders: s.runOrders(few...), notifications: s.runNotifications("RETRY_DELAYS=1s")}
	o.prometheus = observe.StartPrometheus(t, repository, map[string]string{
		"order-service:4100":        o.orders.ops(),
		"notification-service:4101": o.notifications.ops(),
		"rabbitmq:15692":            broker.MetricsAddress(),
	}, scrapeInterval)
	// What is published before the queue is there has no route, which is an alert.
	o.notifications.await("taking messages")
	// An increase is seen only from a first value on.
	o.awaitAll([]observe.Query{{Where: "the targets", Expr: "sum(up) == 4"}})
	return o
}

func (s *service) ops() string {
	s.Helper()
	return fmt.Sprint(s.await("answering operators")["address"])
}

// drive has twenty orders that go well, one that needs a retry, one whose customer does
// not exist, and an event that a queue refuses until it is failed.
func (o *observed) drive() {
	o.Helper()
	o.mail.refuse("later@example.com", refused(451, 1))
	o.mail.refuse("nobody@example.com", refused(550, always))
	for range 20 {
		o.place(o.orders)
	}
	o.placeFor("later@example.com")
	o.placeFor("nobody@example.com")
	o.awaitCount(o.system.notifications, 21, sent)

	o.bind("full", "order.refused", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	o.fill("full")
	o.commit(event{"order.refused", "{}"})
	o.awaitCount(o.system.orders, 1, "SELECT count(*) FROM outbox_events WHERE status = 'failed'")
}

func (o *observed) placeFor(email string) {
	o.Helper()
	body := strings.NewReader(fmt.Sprintf(`{"product_id":"sku123","quantity":1,"customer_email":%q}`, email))
	request, err := http.NewRequestWithContext(o.Context(), http.MethodPost, o.orders.address()+"/orders", body)
	must(o.T, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	must(o.T, err)
	must(o.T, response.Body.Close())
	if response.StatusCode != http.StatusCreated {
		o.Fatalf("ordering answers %s", response.Status)
	}
}

// awaitAll asks until each query is answered, and names those that never are.
func (o *observed) awaitAll(queries []observe.Query) {
	o.Helper()
	ask := time.NewTicker(scrapeInterval)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); ; <-ask.C {
		var complaints []string
		queries = slices.DeleteFunc(queries, func(q observe.Query) bool {
			err := errors.Join(o.answered(q), o.exemplified(q))
			if err != nil {
				complaints = append(complaints, fmt.Sprintf("%s: %v: %s", q.Where, err, q.Expr))
			}
			return err == nil
		})
		if len(queries) == 0 {
			return
		}
		if time.Now().After(deadline) {
			o.Fatalf("%d queries:\n%s", len(queries), strings.Join(complaints, "\n"))
		}
	}
}

// answered wants numbers, and for what was driven one above zero.
func (o *observed) answered(q observe.Query) error {
	series, err := o.prometheus.Ask(q, o.began)
	if err != nil {
		return err
	}
	if len(series) == 0 {
		return fmt.Errorf("no series")
	}
	isDriven := slices.ContainsFunc(q.Selectors(), func(s string) bool { return slices.Contains(driven, s) })
	aboveZero := slices.ContainsFunc(series, func(s observe.Series) bool { return slices.Max(s.Values) > 0 })
	if isDriven && !aboveZero && !strings.Contains(q.Expr, " bool ") {
		return fmt.Errorf("never above zero")
	}
	return nil
}

// exemplified wants the way from the panel to a trace, where there is one.
func (o *observed) exemplified(q observe.Query) error {
	if !q.Exemplar {
		return nil
	}
	exemplars, err := o.prometheus.Exemplars(q, o.began)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(exemplars, func(labels map[string]string) bool { return len(labels["trace_id"]) == 32 }) {
		return fmt.Errorf("no exemplar has a trace")
	}
	return nil
}

// selectorsOf returns each selector as a query of its own: `or` would hide that one has
// no series.
func selectorsOf(queries []observe.Query) (selectors []observe.Query) {
	seen := map[string]bool{}
	for _, q := range queries {
		for _, s := range q.Selectors() {
			if !seen[s] {
				selectors = append(selectors, observe.Query{Where: q.Where, Expr: s})
			}
			seen[s] = true
		}
	}
	return selectors
}

// awaitAlerts waits until these are active, by name and queue, and nothing else is.
func (o *observed) awaitAlerts(want ...string) {
	o.Helper()
	ask := time.NewTicker(scrapeInterval)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); ; <-ask.C {
		active, err := o.prometheus.ActiveAlerts()
		must(o.T, err)
		var got []string
		for _, a := range active {
			got = append(got, a.Labels["alertname"]+" "+a.Labels["queue"])
			if text := a.Annotations["summary"]; strings.Contains(text, "<error") || strings.Contains(text, "%!") {
				o.Errorf("%s: %s", a.Labels["alertname"], text)
			}
		}
		if slices.Sort(got); slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			o.Fatalf("active are %q, want %q", got, want)
		}
	}
}
