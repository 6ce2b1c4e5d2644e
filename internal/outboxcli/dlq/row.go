package dlq

import (
	"cmp"
	"fmt"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// letter is a dead letter without its body and headers: a line of a table, or JSON.
type letter struct {
	ID         string     `json:"id"`
	RoutingKey string     `json:"routing_key"`
	Code       string     `json:"failure_code"`
	Reason     string     `json:"failure_reason"`
	FailedAt   *time.Time `json:"failed_at"`
	Age        *float64   `json:"age_seconds"` // since FailedAt, by this machine's clock
	Retries    int64      `json:"retry_count"`
	Size       int        `json:"size"` // of the body, in bytes
}

func letterOf(d rabbitmq.DeadLetter) letter {
	l := letter{ID: d.ID, RoutingKey: d.RoutingKey, Code: d.Code, Reason: d.Reason, Retries: d.Retries, Size: len(d.Body)}
	if !d.FailedAt.IsZero() {
		l.FailedAt, l.Age = new(d.FailedAt.UTC()), new(time.Since(d.FailedAt).Seconds())
	}
	return l
}

func rowsOf(letters []letter) []cli.Row {
	rows := make([]cli.Row, 0, len(letters))
	for _, l := range letters {
		rows = append(rows, l)
	}
	return rows
}

// Header returns the column names of a list.
func (letter) Header() []string {
	return []string{"ID", "ROUTING KEY", "CODE", "FAILED AT", "AGE", "RETRIES", "SIZE", "REASON"}
}

// Cells are the columns of one row.
func (l letter) Cells() []string {
	return []string{
		cli.Printable(cmp.Or(l.ID, "-")), cli.Printable(l.RoutingKey), cli.Printable(l.Code), l.failedAt(), l.age(),
		fmt.Sprint(l.Retries), fmt.Sprint(l.Size), cli.Truncate(cli.Printable(l.Reason)),
	}
}

func (l letter) failedAt() string {
	if l.FailedAt == nil {
		return ""
	}
	return l.FailedAt.Format(time.RFC3339)
}

func (l letter) age() string {
	if l.Age == nil {
		return ""
	}
	return cli.Age(time.Duration(*l.Age * float64(time.Second)))
}
