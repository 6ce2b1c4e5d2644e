package outboxcli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

func (c eventsOf) find(ctx context.Context, e *env, limit int) (found []any, err error) {
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

func (events) show(ctx context.Context, e *env, id uuid.UUID) (found []any, err error) {
	err = e.operator(ctx, func(o *operate.Operator) error {
		d, err := o.Show(ctx, id)
		if errors.Is(err, operate.ErrNoEvent) {
			return fmt.Errorf("there is no event %s: it was never committed, or published and pruned; `%s outbox list` shows ids", id, e.Name)
		}
		found = []any{detailOf(d)}
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

// event is an event in a list. Its JSON has the names of the columns of outbox_status.
type event struct {
	ID            uuid.UUID  `json:"id"`
	Topic         string     `json:"topic"`
	Aggregate     string     `json:"aggregate"`
	AggregateID   string     `json:"aggregate_id"`
	Version       int        `json:"version"`
	Status        string     `json:"status"`
	CreatedAt     time.Time  `json:"created_at"`
	PublishedAt   *time.Time `json:"published_at"`
	FailedAt      *time.Time `json:"failed_at"`
	Age           float64    `json:"age_seconds"` // since FailedAt, or else CreatedAt, by the database's clock
	RetryCount    int        `json:"retry_count"`
	FailureCode   orNull     `json:"failure_code"`
	FailureReason orNull     `json:"failure_reason"`
}

func eventOf(e operate.Event) event {
	return event{
		e.ID, e.Topic, e.Aggregate, e.AggregateID, e.Version, e.Status, e.CreatedAt, e.PublishedAt, e.FailedAt, e.Age,
		e.RetryCount, orNull(e.FailureCode), orNull(e.FailureReason),
	}
}

// objects are events as they are printed.
func objects(events []operate.Event) (objects []any) {
	for _, e := range events {
		objects = append(objects, eventOf(e))
	}
	return objects
}

// detail is all that is known about an event.
type detail struct {
	event
	Seq         int64             `json:"seq"`
	AvailableAt *time.Time        `json:"available_at,omitzero"` // it is due, or the lease of its claim ends
	DiscardedAt *time.Time        `json:"discarded_at,omitzero"` // or superseded
	LockedBy    orNull            `json:"locked_by"`
	Traceparent string            `json:"traceparent"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers,omitzero"`
	Halted      bool              `json:"halted"` // its topic is paused
	BlockedBy   []event           `json:"blocked_by"`
	Waiting     int               `json:"waiting"`
	Payload     jsontext.Value    `json:"payload"` // a string, unless it is JSON
}

func detailOf(d operate.Detail) detail {
	all := detail{
		event: eventOf(d.Event), Seq: d.Seq, AvailableAt: d.DueAt, DiscardedAt: d.DiscardedAt, LockedBy: orNull(d.Worker),
		Traceparent: d.Traceparent, ContentType: d.ContentType, Headers: d.Headers, Halted: d.Halted, Waiting: d.Waiting,
		Payload: jsontext.Value("null"), // it is gone from the log
	}
	if d.ClaimedUntil != nil {
		all.AvailableAt = d.ClaimedUntil
	}
	for _, older := range d.BlockedBy {
		all.BlockedBy = append(all.BlockedBy, eventOf(older))
	}
	if !d.CreatedAt.IsZero() {
		_, all.Payload = contentOf(d.Payload)
	}
	return all
}
