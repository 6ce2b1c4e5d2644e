package outboxcli

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
)

// place is an event, and its place among those of its aggregate.
type place struct {
	ID          uuid.UUID `json:"id"`
	Topic       string    `json:"topic"`
	Aggregate   string    `json:"aggregate,omitzero"`
	AggregateID string    `json:"aggregate_id,omitzero"`
	Version     int       `json:"version,omitzero"`
}

func placeOf(e operate.Event) place {
	return place{e.ID, e.Topic, e.Aggregate, e.AggregateID, e.Version}
}

func (p place) cells() []string {
	topic := cli.Printable(p.Topic)
	if p.Aggregate == "" {
		return []string{p.ID.String(), topic, "", ""}
	}
	return []string{p.ID.String(), topic, cli.Printable(p.Aggregate + "/" + p.AggregateID), fmt.Sprint(p.Version)}
}

// entry is an event in a list. Its JSON has the names of the columns of outbox_status.
type entry struct {
	place
	Status        string     `json:"status"`
	RetryCount    int        `json:"retry_count"`
	FailureCode   *string    `json:"failure_code"`
	FailureReason *string    `json:"failure_reason"`
	CreatedAt     *time.Time `json:"created_at"`
	PublishedAt   *time.Time `json:"published_at"`
	FailedAt      *time.Time `json:"failed_at"`
	Age           float64    `json:"age_seconds"` // since FailedAt, or else CreatedAt, by the database's clock
}

func (s Service) entryOf(e operate.Event) entry {
	e = s.masked(e)
	return entry{
		placeOf(e), e.Status, e.RetryCount, orNull(e.FailureCode), orNull(e.FailureReason),
		utc(&e.CreatedAt), utc(e.PublishedAt), utc(e.FailedAt), e.Age,
	}
}

func (s Service) entries(events []operate.Event) []cli.Row {
	rows := make([]cli.Row, 0, len(events))
	for _, e := range events {
		rows = append(rows, s.entryOf(e))
	}
	return rows
}

// Header names the columns of a list.
func (entry) Header() []string {
	return []string{"ID", "TOPIC", "AGGREGATE", "VERSION", "STATUS", "ATTEMPTS", "CODE", "AGE", "REASON"}
}

// Cells are its values in a list.
func (e entry) Cells() []string {
	return append(e.cells(), e.Status, fmt.Sprint(e.RetryCount), orEmpty(e.FailureCode),
		cli.Age(time.Duration(e.Age*float64(time.Second))), cli.Truncate(cli.Printable(orEmpty(e.FailureReason))))
}

// published is an event that is sent again.
type published struct {
	place
	PublishedAt *time.Time `json:"published_at"`
}

func publishedEvents(events []operate.Event) []cli.Row {
	rows := make([]cli.Row, 0, len(events))
	for _, e := range events {
		rows = append(rows, published{placeOf(e), utc(e.PublishedAt)})
	}
	return rows
}

// Header names the columns.
func (published) Header() []string {
	return []string{"ID", "TOPIC", "AGGREGATE", "VERSION", "PUBLISHED"}
}

// Cells are its values.
func (p published) Cells() []string { return append(p.cells(), p.PublishedAt.Format(time.RFC3339)) }

// utc converts a time to UTC: it is in the time zone of the operator's machine. A zero one is nil.
func utc(at *time.Time) *time.Time {
	if at == nil || at.IsZero() {
		return nil
	}
	return new(at.UTC())
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
