package outboxcli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

// events are the failed events of an outbox that the flags choose.
type events struct {
	Topic     text   `group:"Choose by:" placeholder:"TOPIC" help:"Only events of this topic, such as ${topic}."`
	OlderThan moment `group:"Choose by:" placeholder:"TIME" help:"Only events that failed (others: were created) before TIME."`
}

// eventsOf are those of any status.
type eventsOf struct {
	events `embed:""`
	Status string `default:"failed" enum:"${statuses}" placeholder:"STATUS" help:"Events of this status: ${enum}."`
}

// filter reads TIME by the database's clock. Without it, the filter ends now: a command does not
// change events that fail while it runs, and so it ends.
func (c events) filter(ctx context.Context, o *operate.Operator, status string) (operate.Filter, error) {
	now, err := o.Now(ctx)
	if err == nil && c.OlderThan.asOf != nil {
		now = c.OlderThan.asOf(now)
	}
	return operate.Filter{Status: status, Topic: string(c.Topic), Before: now}, err
}

func (events) none(*env) string     { return "There are no failed events like that." }
func (c eventsOf) none(*env) string { return "There are no " + c.Status + " events like that." }

func (c eventsOf) find(ctx context.Context, e *env, limit int) (found []object, err error) {
	err = e.operator(ctx, func(o *operate.Operator) error {
		f, err := c.filter(ctx, o, c.Status)
		if err != nil {
			return err
		}
		page, err := o.List(ctx, f, uuid.Nil, limit)
		found = objects(page)
		return err
	})
	return found, err
}

func (events) show(ctx context.Context, e *env, id uuid.UUID) (found []object, err error) {
	err = e.operator(ctx, func(o *operate.Operator) error {
		d, err := o.Show(ctx, id)
		if errors.Is(err, operate.ErrNoEvent) {
			return fmt.Errorf("there is no event %s: it was never committed, or published and pruned; `%s outbox list` shows ids", id, e.Name)
		}
		found = []object{detailOf(d)}
		return err
	})
	return found, err
}

func (c events) decide(ctx context.Context, e *env, d *decision, ids []uuid.UUID) error {
	return e.operator(ctx, func(o *operate.Operator) error {
		progress := progress{to: e.progress, total: len(ids)}
		change := func(batch []uuid.UUID) error {
			result, err := d.apply(ctx, o, batch)
			if err != nil {
				return err
			}
			d.did(objects(result.Changed)...)
			for _, r := range result.Refused {
				// What the flags have chosen, and is no longer failed, another operator has changed.
				if r.Failed || len(ids) > 0 {
					d.left = append(d.left, r.String())
				}
			}
			progress.at(d.done)
			return d.flush()
		}
		for batch := range slices.Chunk(ids, pageSize) {
			if err := change(batch); err != nil {
				return err
			}
		}
		if len(ids) > 0 {
			return nil
		}
		f, err := c.filter(ctx, o, operate.Failed)
		if err == nil {
			progress.total, err = o.Count(ctx, f)
		}
		for after := uuid.Nil; err == nil; {
			page, failed := o.List(ctx, f, after, pageSize)
			if failed != nil || len(page) == 0 {
				return failed
			}
			after, err = page[len(page)-1].ID, change(operate.IDsOf(page))
		}
		return err
	})
}

func (d *decision) apply(ctx context.Context, o *operate.Operator, ids []uuid.UUID) (operate.Result, error) {
	switch {
	case d.dryRun:
		return o.DryRun(ctx, d.action, ids)
	case d.action == operate.Replay:
		return o.Replay(ctx, d.by, ids)
	default:
		return o.Discard(ctx, d.by, ids)
	}
}

// eventOf is an event in a list. Its fields have the names of the columns of outbox_status.
func eventOf(e operate.Event) object {
	return object{
		{"id", e.ID},
		{"topic", e.Topic},
		{"aggregate", e.Aggregate},
		{"aggregate_id", e.AggregateID},
		{"version", e.Version},
		{"status", e.Status},
		{"created_at", e.CreatedAt},
		{"published_at", e.PublishedAt},
		{"failed_at", e.FailedAt},
		{"age_seconds", e.Age}, // since failed_at, or else created_at, by the database's clock
		{"retry_count", e.RetryCount},
		{"failure_code", orNull(e.FailureCode)},
		{"failure_reason", orNull(e.FailureReason)},
	}
}

func objects(events []operate.Event) (objects []object) {
	for _, e := range events {
		objects = append(objects, eventOf(e))
	}
	return objects
}

// detailOf is all that is known about an event.
func detailOf(d operate.Detail) object {
	available, payload := d.DueAt, jsontext.Value("null") // the payload is gone from the log
	if d.ClaimedUntil != nil {
		available = d.ClaimedUntil
	}
	if !d.CreatedAt.IsZero() {
		_, payload = contentOf(d.Payload)
	}
	return append(
		eventOf(d.Event), object{
			{"seq", d.Seq},
			{"available_at", available},     // it is due, or the lease of its claim ends
			{"discarded_at", d.DiscardedAt}, // or superseded
			{"locked_by", orNull(d.Worker)},
			{"traceparent", d.Traceparent},
			{"content_type", d.ContentType},
			{"headers", d.Headers},
			{"paused", d.Paused}, // its topic is paused
			{"blocked_by", objects(d.BlockedBy)},
			{"waiting", d.Waiting},
			{"payload", payload}, // a string, unless it is JSON
		}...,
	)
}
