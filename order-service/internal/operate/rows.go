package operate

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/operator"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// entryRow is an event in a list.
type entryRow struct{ outbox.Entry }

func entryRows(entries []outbox.Entry) []operator.Row {
	rows := make([]operator.Row, 0, len(entries))
	for _, e := range entries {
		rows = append(rows, entryRow{utc(e)})
	}
	return rows
}

// Heads names the columns of a list.
func (entryRow) Heads() []string {
	return []string{"ID", "EVENT KEY", "AGGREGATE", "VERSION", "STATUS", "ATTEMPTS", "CODE", "AGE", "REASON"}
}

// Cells are what a list shows of it.
func (r entryRow) Cells() []string {
	return []string{
		r.ID.String(), r.EventKey, r.AggregateType + "/" + r.AggregateID.String(), fmt.Sprint(r.AggregateVersion),
		r.Status, fmt.Sprint(r.RetryCount), value(r.FailureCode), operator.Age(seconds(r.Age)), operator.Cut(operator.Plain(value(r.FailureReason))),
	}
}

// sentRow is an event that was published.
type sentRow struct {
	ID       uuid.UUID `json:"id"`
	EventKey string    `json:"event_key"`
	outbox.Position
	PublishedAt time.Time `json:"published_at"`
}

func sentRows(events []outbox.Published) []operator.Row {
	rows := make([]operator.Row, 0, len(events))
	for _, e := range events {
		rows = append(rows, sentRow{e.ID, e.EventKey, e.Position, e.PublishedAt.UTC()})
	}
	return rows
}

// Heads names the columns.
func (sentRow) Heads() []string {
	return []string{"ID", "EVENT KEY", "AGGREGATE", "VERSION", "PUBLISHED"}
}

// Cells are what is shown of it.
func (r sentRow) Cells() []string {
	return []string{
		r.ID.String(), r.EventKey, r.AggregateType + "/" + r.AggregateID.String(), fmt.Sprint(r.AggregateVersion),
		r.PublishedAt.Format(time.RFC3339),
	}
}

// utc takes the times out of the zone of the operator's machine.
func utc(e outbox.Entry) outbox.Entry {
	e.CreatedAt = e.CreatedAt.UTC()
	for _, t := range []**time.Time{&e.PublishedAt, &e.FailedAt} {
		if *t != nil {
			*t = new((*t).UTC())
		}
	}
	return e
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
