package relay

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// routes remembers for which keys no queue is bound. That saves publishing what would be
// returned, and tells it once for each key. What is due when is in the outbox.
type routes struct {
	mu      sync.Mutex
	missing map[string]missingRoute
}

type missingRoute struct{ since, until time.Time }

// split returns the events to publish, and the setbacks of those that wait with the others
// of their key. An event that has waited itself is the probe, or was brought back.
func (r *routes) split(events []outbox.Claimed) (try []outbox.Claimed, wait []outbox.Setback) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, e := range events {
		route, missing := r.missing[e.EventKey]
		if missing && !e.Unroutable && now.Before(route.until) {
			wait = append(wait, outbox.Setback{
				ID: e.ID, Delay: unroutableDelay(e.Age), Code: "unroutable", Reason: "no queue is bound for its key",
			})
			continue
		}
		try = append(try, e)
	}
	return try, wait
}

// learn notes what a batch shows about routes. It returns the keys that have a route now, and of
// which events may still be waiting.
func (r *routes) learn(ctx context.Context, events []outbox.Claimed, results []rabbitmq.Result) (found []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	routable, now := map[string]bool{}, time.Now()
	for i, e := range events {
		_, missing := r.missing[e.EventKey]
		switch {
		case results[i].Outcome == rabbitmq.Returned:
			routable[e.EventKey] = false
		case results[i].Outcome == rabbitmq.Confirmed && (e.Unroutable || missing):
			if _, returned := routable[e.EventKey]; !returned {
				routable[e.EventKey] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(routable)) {
		if routable[key] {
			r.found(ctx, key)
			found = append(found, key)
		} else {
			r.notFound(ctx, key, now)
		}
	}
	return found
}

func (r *routes) found(ctx context.Context, key string) {
	if _, missing := r.missing[key]; missing {
		slog.InfoContext(ctx, "a queue is bound again", "routing_key", key)
		delete(r.missing, key)
	}
}

func (r *routes) notFound(ctx context.Context, key string, now time.Time) {
	route, missing := r.missing[key]
	if !missing {
		slog.WarnContext(ctx, "no queue is bound, events wait", "routing_key", key)
		route.since = now
	}
	route.until = now.Add(unroutableDelay(now.Sub(route.since).Seconds()))
	r.missing[key] = route
}

// followRoutes brings back what can go now, as much as the workers carry at once. The pass
// that publishes it brings the next ones back. If this fails, the outbox's janitor makes
// another probe.
func (w *worker) followRoutes(ctx context.Context, events []outbox.Claimed, results []rabbitmq.Result) {
	for _, key := range w.routes.learn(ctx, events, results) {
		n, err := w.outbox.BringBack(ctx, key, w.config.Workers*w.config.BatchSize)
		if err != nil {
			slog.WarnContext(ctx, "cannot bring back events that wait for a route", "routing_key", key, "error", err)
		}
		if n > 0 {
			w.Wake()
		}
	}
}
