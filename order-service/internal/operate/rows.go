package operate

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// row is a line of a table, or a JSON object.
type row interface {
	heads() []string
	cells() []string
}

// entryRow is an event in a list.
type entryRow struct{ outbox.Entry }

func entryRows(entries []outbox.Entry) []row {
	rows := make([]row, 0, len(entries))
	for _, e := range entries {
		rows = append(rows, entryRow{utc(e)})
	}
	return rows
}

func (entryRow) heads() []string {
	return []string{"ID", "EVENT KEY", "AGGREGATE", "VERSION", "STATUS", "ATTEMPTS", "CODE", "AGE", "REASON"}
}

func (r entryRow) cells() []string {
	return []string{
		r.ID.String(), r.EventKey, r.AggregateType + "/" + r.AggregateID.String(), fmt.Sprint(r.AggregateVersion),
		r.Status, fmt.Sprint(r.RetryCount), value(r.FailureCode), age(r.Age), cut(plain(value(r.FailureReason))),
	}
}

// sentRow is an event that was published.
type sentRow struct {
	ID       uuid.UUID `json:"id"`
	EventKey string    `json:"event_key"`
	outbox.Position
	PublishedAt time.Time `json:"published_at"`
}

func sentRows(events []outbox.Published) []row {
	rows := make([]row, 0, len(events))
	for _, e := range events {
		rows = append(rows, sentRow{e.ID, e.EventKey, e.Position, e.PublishedAt.UTC()})
	}
	return rows
}

func (sentRow) heads() []string {
	return []string{"ID", "EVENT KEY", "AGGREGATE", "VERSION", "PUBLISHED"}
}

func (r sentRow) cells() []string {
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

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// plain keeps what a broker said from moving the cursor or colouring the terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// reasonWidth is what a table shows of a reason; show has all of it.
const reasonWidth = 60

func cut(text string) string {
	if runes := []rune(text); len(runes) > reasonWidth {
		return string(runes[:reasonWidth-1]) + "…"
	}
	return text
}

// age is as exact as people want it.
func age(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}
