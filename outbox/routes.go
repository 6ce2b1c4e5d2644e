package outbox

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// routes remembers the topics for which no queue is bound. So the relay does not publish events
// that would be returned, and logs once for each topic. The due times are in the outbox.
type routes struct {
	mu      sync.Mutex
	missing map[string]missingRoute
	log     *lines
}

type missingRoute struct{ since, until time.Time }

// split separates the events to publish from those whose topic has no queue. Of such a topic it
// publishes only events that have waited before: the probe, and events that were brought back.
func (r *routes) split(events []store.Event) (publish []store.Event, wait []store.Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, e := range events {
		route, missing := r.missing[e.Topic]
		if missing && !waitsForRoute(e) && now.Before(route.until) {
			wait = append(wait, store.Failure{
				ID: e.ID, Delay: unroutableDelay(e.Age), Code: codeUnroutable, Reason: "no queue is bound for its topic",
			})
			continue
		}
		publish = append(publish, e)
	}
	return publish, wait
}

// update notes for which topics the broker returned or confirmed events. It returns the topics that
// have a queue now and whose events may still be waiting.
func (r *routes) update(ctx context.Context, events []store.Event, results []publish.Result) (bound []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	routable, now := map[string]bool{}, time.Now()
	for i, e := range events {
		_, missing := r.missing[e.Topic]
		switch {
		case results[i].Outcome == publish.Returned:
			routable[e.Topic] = false
		case results[i].Outcome == publish.Confirmed && (waitsForRoute(e) || missing):
			if _, returned := routable[e.Topic]; !returned {
				routable[e.Topic] = true
			}
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(routable)) {
		if routable[topic] {
			r.markBound(ctx, topic)
			bound = append(bound, topic)
		} else {
			r.markUnbound(ctx, topic, now)
		}
	}
	return bound
}

func (r *routes) markBound(ctx context.Context, topic string) {
	if _, missing := r.missing[topic]; missing {
		r.log.InfoContext(ctx, "a queue is bound again", "topic", topic)
		delete(r.missing, topic)
	}
}

func (r *routes) markUnbound(ctx context.Context, topic string, now time.Time) {
	route, missing := r.missing[topic]
	if !missing {
		r.log.WarnContext(ctx, "no queue is bound, events wait", "topic", topic)
		route.since = now
	}
	route.until = now.Add(unroutableDelay(now.Sub(route.since).Seconds()))
	r.missing[topic] = route
}

// updateRoutes makes events due again whose topic has a queue now, as many as the workers publish
// at once. When one of them is confirmed, that batch makes the next ones due. If this fails, the
// outbox's repair makes another event the probe.
func (w *worker) updateRoutes(ctx context.Context, events []store.Event, results []publish.Result) {
	for _, topic := range w.routes.update(ctx, events, results) {
		n, err := w.events.RetryUnroutable(ctx, topic, w.config.Workers*w.config.BatchSize)
		if err != nil {
			w.log.trouble(ctx, slog.LevelWarn, "cannot bring back events that wait for a route", "topic", topic, "error", err)
		}
		if n > 0 {
			w.wakeWorker()
		}
	}
}

// codeUnroutable is the failure code of an event that the destination returned.
const codeUnroutable = "unroutable"

// waitsForRoute reports whether the destination returned the event last time.
func waitsForRoute(e store.Event) bool { return e.FailureCode == codeUnroutable }
