package system

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/env/mailserver"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/observe"
)

const (
	scrapeInterval = 500 * time.Millisecond
	rateInterval   = "2s" // four scrapes, as Grafana's $__rate_interval
)

// raisedSeries are the series that createTraffic raises above zero. A panel or an alert that
// uses one of them must return a value above zero.
var raisedSeries = []string{
	`http_request_duration_seconds_count{job="order-service", method="POST", code="2xx"}`,
	`outbox_events_total{status="published"}`,
	`outbox_events_total{status="failed"}`,
	`outbox_events{status="failed"}`,
	"outbox_refused_total", "outbox_retries_total", "outbox_retry_exhaustions_total",
	`consumer_messages_total{outcome="handled"}`,
	`consumer_messages_total{outcome="retried"}`,
	`consumer_messages_total{outcome="dead_lettered"}`,
	"order_to_notification_seconds_count",
	`rabbitmq_detailed_queue_messages{queue="notification-service.dlq"}`,
	"outbox_relay_up", "consumer_up",
}

// observedSystem is a whole system with a Prometheus that scrapes it.
type observedSystem struct {
	*system
	orders, notifications *service
	prometheus            *observe.Prometheus
	began                 time.Time
}

// TestEveryQueryReturnsSeries creates orders, a retry, a failed event and dead letters. Then
// it sends the query of each panel and each alert to a real Prometheus, and draws the dashboards.
func TestEveryQueryReturnsSeries(t *testing.T) {
	t.Parallel()
	o := newObservedSystem(t)
	o.createTraffic()
	queries, err := observe.Queries(repository, rateInterval)
	must(t, err)
	if len(queries) < 100 {
		t.Errorf("only %d queries were found", len(queries))
	}
	o.awaitQueries(append(queries, selectorsOf(queries)...))
	if drawing, err := o.prometheus.Draw(repository, t.TempDir()); err != nil {
		t.Errorf("the dashboards: %v\n%s", err, drawing)
	}
	o.awaitAlerts("DeadLettersWait notification-service.dlq", "EmailsFailed ", "OutboxEventsFailed ")
}

func newObservedSystem(t *testing.T) *observedSystem {
	t.Helper()
	broker := servers.RabbitMQ(t, servers.MetricsPlugin)
	s := newSystemOn(t, sharedDatabase, broker)
	traces := collectSpans(t).settings() // exemplars need sampled traces
	o := &observedSystem{system: s, began: time.Now()}
	// An event that is refused fails after a second, and at least ten refusals.
	quickGiveUp := []string{"RELAY_GIVE_UP=1s", "RELAY_RETRY_BASE=10ms", "RELAY_RETRY_CAP=100ms", "RELAY_POLL_INTERVAL=10ms"}
	o.orders = s.runOrders(append(quickGiveUp, traces...)...)
	o.notifications = s.runNotifications(append(traces, "RETRY_DELAYS=1s")...)
	o.prometheus = observe.StartPrometheus(t, repository, map[string]string{
		"order-service:4100":        o.orders.opsAddress(),
		"notification-service:4101": o.notifications.opsAddress(),
		"rabbitmq:15692":            broker.MetricsAddress(),
	}, scrapeInterval)
	// An event that is published before the queue exists has no route, which raises an alert.
	o.notifications.awaitReadyz()
	// increase() needs a value from before the increase.
	o.awaitQueries([]observe.Query{{Where: "the targets", Expr: "sum(up) == 4"}})
	return o
}

// createTraffic places twenty orders that succeed, one that needs a retry, and one whose recipient
// does not exist, and publishes a message that nobody can read. It also inserts an event that a
// queue rejects until it fails, while other orders succeed.
func (o *observedSystem) createTraffic() {
	o.Helper()
	o.mail.SetFault(mailserver.Fault{Rcpt: func(to string, _ int) string {
		if to == "nobody@example.com" {
			return noSuchTo
		}
		return ""
	}})
	for range 20 {
		o.place(o.orders)
	}
	body := `{"product_id":"sku123","quantity":1,"customer_email":"nobody@example.com"}`
	_, _, err := call(o.Context(), o.orders.address()+"/orders", body)
	must(o.T, err)
	later := newEvents(1)[0]
	mend := o.failOrder(later)
	copies := o.recordExchanges(retryPrefix + "1s")
	o.publish(later.publishing(), malformed())
	copies.await(1)
	mend()
	o.awaitCount(o.notificationsDB, 21, sentCount)
	o.awaitCount(o.notificationsDB, 1, failedCount)

	o.declareBoundQueue("full", "order.refused", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	o.withChannel(func(c *amqp.Channel) error {
		for range 100 {
			confirm, err := c.PublishWithDeferredConfirm("", "full", false, false, amqp.Publishing{})
			if err != nil || !confirm.Wait() {
				return err
			}
		}
		return errors.New("the queue does not fill")
	})
	o.appendEvent(o.ordersDB, "order.refused")
	if !eventually(func() bool {
		o.place(o.orders)
		return queryValue[int](o.system, o.ordersDB, failedCount) == 1
	}) {
		o.Fatal("no event has failed")
	}
}

// awaitQueries repeats the queries until each one has a good answer, and lists the others.
func (o *observedSystem) awaitQueries(queries []observe.Query) {
	o.Helper()
	var problems []string
	if !eventually(func() bool {
		problems = nil
		queries = slices.DeleteFunc(queries, func(q observe.Query) bool {
			err := errors.Join(o.checkSeries(q), o.checkExemplars(q))
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v: %s", q.Where, err, q.Expr))
			}
			return err == nil
		})
		return len(queries) == 0
	}) {
		o.Fatalf("%d queries:\n%s", len(queries), strings.Join(problems, "\n"))
	}
}

// checkSeries wants series, and a value above zero for raisedSeries.
func (o *observedSystem) checkSeries(q observe.Query) error {
	series, err := o.prometheus.Query(q, o.began)
	if err != nil {
		return err
	}
	if len(series) == 0 {
		return fmt.Errorf("no series")
	}
	raised := slices.ContainsFunc(q.Selectors(), func(s string) bool { return slices.Contains(raisedSeries, s) })
	aboveZero := slices.ContainsFunc(series, func(s observe.Series) bool { return slices.Max(s.Values) > 0 })
	if raised && !aboveZero && !strings.Contains(q.Expr, " bool ") {
		return fmt.Errorf("never above zero")
	}
	return nil
}

// checkExemplars wants an exemplar with a trace id, if the panel shows exemplars.
func (o *observedSystem) checkExemplars(q observe.Query) error {
	if !q.Exemplar {
		return nil
	}
	exemplars, err := o.prometheus.Exemplars(q, o.began)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(exemplars, func(labels model.LabelSet) bool { return len(labels["trace_id"]) == 32 }) {
		return fmt.Errorf("no exemplar has a trace")
	}
	return nil
}

// selectorsOf returns a query for each selector: `or` would hide a selector without series.
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

// awaitAlerts waits until exactly these alerts are active. Each has a name and a queue.
func (o *observedSystem) awaitAlerts(want ...string) {
	o.Helper()
	var got []string
	if !eventually(func() bool {
		active, err := o.prometheus.ActiveAlerts()
		must(o.T, err)
		got = nil
		for _, a := range active {
			got = append(got, string(a.Labels["alertname"]+" "+a.Labels["queue"]))
			if text := string(a.Annotations["summary"]); strings.Contains(text, "<error") || strings.Contains(text, "%!") {
				o.Errorf("%s: %s", a.Labels["alertname"], text)
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	}) {
		o.Fatalf("the active alerts are %q, want %q", got, want)
	}
}
