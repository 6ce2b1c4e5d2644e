package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

var show = command{
	Name: "show", Arguments: "ID [flags]",
	Does: "show one event, what it waits for, and what waits for it",
	More: `Shows everything about one event, with its payload. The events of one order are
published in the order of their versions. So it also shows the older events that this
one waits for, and how many later ones wait for it. For example:

  ` + program + ` show 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57`,
	Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
		asJSON := cli.DefineJSON(flags)
		return func(args []string) (Action, error) {
			ids, err := parseIDs(args)
			if err == nil && len(ids) != 1 {
				err = errors.New("name one event by its id")
			}
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, d Dependencies) error { return showEvent(ctx, d, ids[0], *asJSON) }, nil
		}
	},
}

func showEvent(ctx context.Context, d Dependencies, id uuid.UUID, asJSON bool) error {
	e, err := d.Outbox.Show(ctx, id)
	if errors.Is(err, outbox.ErrNoEvent) {
		return fmt.Errorf("there is no event %s: it was never committed, or published and pruned; `%s list` shows ids", id, program)
	}
	if err != nil {
		return err
	}
	e.Entry, e.AvailableAt = utc(e.Entry), e.AvailableAt.UTC()
	for i, older := range e.BlockedBy {
		e.BlockedBy[i] = utc(older)
	}
	if asJSON {
		return cli.PrintJSON(d.Out, e)
	}
	return printDetail(d.Out, e)
}

func printDetail(out io.Writer, e outbox.Detail) error {
	if err := e.Payload.Indent(); err != nil {
		return err
	}
	lines := cli.NewLines(out)
	lines.Add("id", e.ID.String())
	lines.Add("event key", e.EventKey)
	lines.Add("aggregate", fmt.Sprintf("%s/%s, version %d", e.AggregateType, e.AggregateID, e.AggregateVersion))
	lines.Add("status", e.Status)
	lines.Add("attempts", fmt.Sprint(e.RetryCount))
	lines.Add("failure code", valueOrEmpty(e.FailureCode))
	lines.Add("failure reason", valueOrEmpty(e.FailureReason))
	lines.Add("created at", formatTime(&e.CreatedAt))
	lines.Add("published at", formatTime(e.PublishedAt))
	lines.Add("failed at", formatTime(e.FailedAt))
	lines.Add(availableAtLabel[e.Status], formatTime(&e.AvailableAt))
	lines.Add("worker", valueOrEmpty(e.LockedBy))
	lines.Add("traceparent", e.Traceparent)
	for _, older := range e.BlockedBy {
		lines.Add("waits for", fmt.Sprintf("%s, version %d, %s", older.ID, older.AggregateVersion, older.Status))
	}
	if e.Waiting > 0 {
		lines.Add("holds back", event.Count(e.Waiting)+" of its order")
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "payload\n%s\n", e.Payload)
	return err
}

// availableAtLabel is what available_at means in each status. In the others it has no meaning.
var availableAtLabel = map[string]string{"pending": "due at", "in_progress": "lease ends at"}

func formatTime(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}
