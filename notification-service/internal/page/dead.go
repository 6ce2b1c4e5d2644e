package page

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/outboxcli/dlq"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

const (
	// listSize is how many dead letters the list shows. Until it is read, nobody else sees them.
	listSize    = 100
	readTimeout = 10 * time.Second
	// keepList is how long a reading is shown. Looking at the list must not hold the queue all the
	// time.
	keepList = 10 * time.Second
)

// deadLetters shows the first dead letters. The commands change them.
type deadLetters struct {
	open dlq.Open

	mu   sync.Mutex // held while the queue is read, so that one reading serves all who ask
	last reading
}

// reading is what was in the queue.
type reading struct {
	at    time.Time
	rows  []page.Row
	total int
	err   error
}

func (d *deadLetters) list(ctx context.Context, _ *page.Request) (page.Result, error) {
	read := d.read(ctx)
	if read.err != nil {
		return page.Result{}, &page.Error{
			Status: http.StatusServiceUnavailable, Cause: read.err,
			Text: "The dead letters cannot be read: the broker does not answer, or it has no such queue yet. The log of the service says why.",
		}
	}
	table := page.Table{
		Caption: "Dead letters, in the order of the queue", Empty: "There are no dead letters.",
		Columns: []string{"Message", "Routing key", "Code", "Failed at", "Retries", "Bytes", "Reason"}, Rows: read.rows,
	}
	note := fmt.Sprintf("%d of %s, read at %s UTC. The commands show, replay and discard them: "+
		"notification-service dlq list, show ID, replay ID, discard ID. Each has a help (-h).",
		len(read.rows), cli.Noun("message").Count(read.total), read.at.UTC().Format(time.TimeOnly))
	return page.Show("Dead letters", page.Heading{Text: "Messages that the consumer has given up", Note: note}, table), nil
}

// read returns the last reading, or reads the queue.
func (d *deadLetters) read(ctx context.Context) reading {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.last.at) < keepList {
		return d.last
	}
	// Others may wait for it, so it does not end with this request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	read := reading{}
	read.err = d.open(ctx, func(ctx context.Context, letters dlq.Letters) error {
		read.total = letters.Count()
		for len(read.rows) < listSize && ctx.Err() == nil {
			l, ok, err := letters.Next()
			if err != nil || !ok {
				return err
			}
			read.rows = append(read.rows, rowOf(l))
		}
		return context.Cause(ctx)
	})
	if read.err != nil {
		slog.WarnContext(ctx, "the page cannot read the dead letters", "error", read.err)
	}
	read.at = time.Now()
	d.last = read
	return read
}

func rowOf(l rabbitmq.DeadLetter) page.Row {
	failed := page.Text("unknown")
	if !l.FailedAt.IsZero() {
		failed = page.Moment(l.FailedAt)
	}
	return page.Row{ID: l.ID, Cells: []page.Value{
		page.Code(cmp.Or(l.ID, "(no id)")), page.Code(l.RoutingKey), page.Code(l.Code), failed,
		page.Text(fmt.Sprint(l.Retries)), page.Text(fmt.Sprint(len(l.Body))), page.Text(page.Shorten(cli.Mask(l.Reason))),
	}}
}
