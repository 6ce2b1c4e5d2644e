package cli

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// entryRow is an event in a list.
type entryRow struct{ outbox.Entry }

func entryRows(entries []outbox.Entry) []cli.Row {
	rows := make([]cli.Row, 0, len(entries))
	for _, e := range entries {
		rows = append(rows, entryRow{utc(e)})
	}
	return rows
}

// Header names the columns of a list.
func (entryRow) Header() []string {
	return []string{"ID", "EVENT KEY", "AGGREGATE", "VERSION", "STATUS", "ATTEMPTS", "CODE", "AGE", "REASON"}
}

// Cells are its values in a list.
func (r entryRow) Cells() []string {
	return []string{
		r.ID.String(), r.EventKey, r.AggregateType + "/" + r.AggregateID.String(), fmt.Sprint(r.AggregateVersion),
		r.Status, fmt.Sprint(r.RetryCount), valueOrEmpty(r.FailureCode), cli.Age(seconds(r.Age)), cli.Truncate(cli.Printable(valueOrEmpty(r.FailureReason))),
	}
}

// publishedRow is an event that was published.
type publishedRow struct {
	ID       uuid.UUID `json:"id"`
	EventKey string    `json:"event_key"`
	outbox.Position
	PublishedAt time.Time `json:"published_at"`
}

func publishedRows(events []outbox.Published) []cli.Row {
	rows := make([]cli.Row, 0, len(events))
	for _, e := range events {
		rows = append(rows, publishedRow{e.ID, e.EventKey, e.Position(), e.PublishedAt.UTC()})
	}
	return rows
}

// Header names the columns.
func (publishedRow) Header() []string {
	return []string{"ID", "EVENT KEY", "AGGREGATE", "VERSION", "PUBLISHED"}
}

// Cells are its values.
func (r publishedRow) Cells() []string {
	return []string{
		r.ID.String(), r.EventKey, r.AggregateType + "/" + r.AggregateID.String(), fmt.Sprint(r.AggregateVersion),
		r.PublishedAt.Format(time.RFC3339),
	}
}

// utc converts the times to UTC. They are in the time zone of the operator's machine.
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

func valueOrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
