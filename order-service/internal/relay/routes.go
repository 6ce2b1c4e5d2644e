package relay

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// routes remembers the keys for which no queue is bound. So the relay does not publish events
// that would be returned, and logs once for each key. The due times are in the outbox.
type routes struct {
	mu      sync.Mutex
	missing map[string]missingRoute
}

type missingRoute struct{ since, until time.Time }

// split separates the events to publish from those whose key has no queue. Of such a key it
// publishes only events that have waited before: the probe, and events that were brought back.
func (r *routes) split(events []outbox.Claimed) (publish []outbox.Claimed, wait []outbox.Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, e := range events {
		route, missing := r.missing[e.EventKey]
		if missing && !e.Unroutable && now.Before(route.until) {
			wait = append(wait, outbox.Failure{
				ID: e.ID, Delay: unroutableDelay(e.Age), Code: "unroutable", Reason: "no queue is bound for its key",
			})
			continue
		}
		publish = append(publish, e)
	}
	return publish, wait
}

// update notes for which keys the broker returned or confirmed events. It returns the keys that
// have a queue now and whose events may still be waiting.
func (r *routes) update(ctx context.Context, events []outbox.Claimed, results []publish.Result) (bound []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	routable, now := map[string]bool{}, time.Now()
	for i, e := range events {
		_, missing := r.missing[e.EventKey]
		switch {
		case results[i].Outcome == publish.Returned:
			routable[e.EventKey] = false
		case results[i].Outcome == publish.Confirmed && (e.Unroutable || missing):
			if _, returned := routable[e.EventKey]; !returned {
				routable[e.EventKey] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(routable)) {
		if routable[key] {
			r.markBound(ctx, key)
			bound = append(bound, key)
		} else {
			r.markUnbound(ctx, key, now)
		}
	}
	return bound
}

func (r *routes) markBound(ctx context.Context, key string) {
	if _, missing := r.missing[key]; missing {
		slog.InfoContext(ctx, "a queue is bound again", "routing_key", key)
		delete(r.missing, key)
	}
}

func (r *routes) markUnbound(ctx context.Context, key string, now time.Time) {
	route, missing := r.missing[key]
	if !missing {
		slog.WarnContext(ctx, "no queue is bound, events wait", "routing_key", key)
		route.since = now
	}
	route.until = now.Add(unroutableDelay(now.Sub(route.since).Seconds()))
	r.missing[key] = route
}

// updateRoutes makes events due again whose key has a queue now, as many as the workers publish
// at once. When one of them is confirmed, that batch makes the next ones due. If this fails, the
// outbox's repair makes another event the probe.
func (w *worker) updateRoutes(ctx context.Context, events []outbox.Claimed, results []publish.Result) {
	for _, key := range w.routes.update(ctx, events, results) {
		n, err := w.outbox.RetryUnroutable(ctx, key, w.config.Workers*w.config.BatchSize)
		if err != nil {
			slog.WarnContext(ctx, "cannot bring back events that wait for a route", "routing_key", key, "error", err)
		}
		if n > 0 {
			w.Wake()
		}
	}
}
