package cli

import (
	"cmp"
	"fmt"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
)

// row is a dead letter as a line of a table, or as JSON.
type row struct{ deadletter.DeadLetter }

func rowsOf(letters []deadletter.DeadLetter) []cli.Row {
	rows := make([]cli.Row, 0, len(letters))
	for _, l := range letters {
		rows = append(rows, row{l})
	}
	return rows
}

// Header returns the column names of a list.
func (row) Header() []string {
	return []string{"ID", "ROUTING KEY", "CODE", "FAILED AT", "AGE", "RETRIES", "SIZE", "REASON"}
}

// Cells are the columns of one row.
func (r row) Cells() []string {
	return []string{
		cli.Printable(cmp.Or(r.ID, "-")), cli.Printable(r.RoutingKey), cli.Printable(r.Code), r.failedAt(), r.age(),
		fmt.Sprint(r.Retries), fmt.Sprint(r.Size), cli.Truncate(cli.Printable(r.Reason)),
	}
}

func (r row) failedAt() string {
	if r.FailedAt == nil {
		return ""
	}
	return r.FailedAt.Format(time.RFC3339)
}

func (r row) age() string {
	if r.Age == nil {
		return ""
	}
	return cli.Age(time.Duration(*r.Age * float64(time.Second)))
}
