package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	arrivalTimeout = 2 * time.Minute
	showInterval   = 50 * time.Millisecond
)

// event is an event of an order, and its e-mail. A time is nil until the layer has been passed.
type event struct {
	ID, Topic, Trace                     string
	Status, Email                        string // Email is empty until the event is consumed
	Failure, EmailFailure                string // why the broker or the mail server refused it
	Committed, Published, Consumed, Sent *time.Time
}

// An event is committed with its order, so its created_at is the time of the order.
const eventsQuery = `
SELECT id::text, topic, coalesce(nullif(split_part(traceparent, '-', 2), ''), 'none') AS trace,
       status, '' AS email, coalesce(failure_reason, '') AS failure, '' AS email_failure,
       created_at AS committed, published_at AS published,
       null::timestamptz AS consumed, null::timestamptz AS sent
FROM outbox_status
WHERE aggregate = 'order' AND aggregate_id = $1
ORDER BY version`

// If a message was processed and there is no e-mail, a newer event of the order came first.
const emailQuery = `
SELECT coalesce(e.status, 'superseded'), coalesce(e.failure_reason, ''), m.processed_at, e.published_at
FROM processed_messages m
LEFT JOIN outbox_status e ON e.id = $1
WHERE m.message_id = cast($1 AS uuid)::text`

// show waits until an order's e-mail is sent, and prints when its events passed each layer.
func (s *stack) show(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("show", flag.ContinueOnError)
	flags.SetOutput(s.log)
	orderDB := flags.String("order-db", s.state.Databases["order-service"], "`URL` of order-service's database")
	notificationDB := flags.String("notification-db", s.state.Databases["notification-service"], "`URL` of notification-service's")
	if flags.Parse(args) != nil || flags.NArg() != 1 {
		return errUsage
	}
	id, err := uuid.Parse(flags.Arg(0))
	switch {
	case err != nil:
		return fmt.Errorf("%q is not an order id: use the id in the answer to POST /orders", flags.Arg(0))
	case *orderDB == "" || *notificationDB == "":
		return errNotUp
	}
	orders, err := pgx.Connect(ctx, *orderDB)
	if err != nil {
		return fmt.Errorf("order-service's database: %w", err)
	}
	defer func() { _ = orders.Close(context.WithoutCancel(ctx)) }()
	notifications, err := pgx.Connect(ctx, *notificationDB)
	if err != nil {
		return fmt.Errorf("notification-service's database: %w", err)
	}
	defer func() { _ = notifications.Close(context.WithoutCancel(ctx)) }()

	for end := time.Now().Add(arrivalTimeout); ; {
		events, err := readEvents(ctx, orders, notifications, id.String())
		if err != nil {
			return err
		}
		waiting := slices.ContainsFunc(events, func(e event) bool { return e.onItsWay() && !e.stuck() })
		if !waiting || time.Now().After(end) {
			printEvents(s.out, id.String(), events)
			if slices.ContainsFunc(events, event.onItsWay) {
				return errors.New("the order has not passed every layer; the table and the services' logs say why")
			}
			return nil
		}
		select {
		case <-time.After(showInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// onItsWay reports whether the event, or its e-mail, has yet to pass a layer. A customer gets the
// e-mail of a newer event instead of one that is superseded.
func (e event) onItsWay() bool {
	return e.Published == nil || e.Sent == nil && e.Email != "superseded"
}

// stuck reports whether the event, or its e-mail, waits for an operator.
func (e event) stuck() bool {
	return slices.ContainsFunc([]string{e.Status, e.Email}, func(status string) bool {
		return status == "failed" || status == "discarded"
	})
}

// readEvents returns the order's events, the oldest first. Only a tool like this reads both
// services' databases.
func readEvents(ctx context.Context, orders, notifications *pgx.Conn, orderID string) ([]event, error) {
	rows, _ := orders.Query(ctx, eventsQuery, orderID)
	events, err := pgx.CollectRows(rows, pgx.RowToStructByName[event])
	if err != nil {
		return nil, fmt.Errorf("order-service's database: %w", err)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("there is no order %s, or its events are older than the retention and were deleted", orderID)
	}
	for i := range events {
		e := &events[i]
		err := notifications.QueryRow(ctx, emailQuery, e.ID).Scan(&e.Email, &e.EmailFailure, &e.Consumed, &e.Sent)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return nil, fmt.Errorf("notification-service's database: %w", err)
		}
	}
	return events, nil
}

// printEvents prints one line for each layer of each event.
func printEvents(w io.Writer, orderID string, events []event) {
	fmt.Fprintf(w, "order %s\n\n", orderID)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EVENT\tLAYER\tSINCE COMMIT\tAT\tDETAIL")
	for _, e := range events {
		line := func(layer string, at *time.Time, detail string) {
			since, clock := "-", "-"
			if at != nil {
				since = fmt.Sprintf("%9.1f ms", float64(at.Sub(*e.Committed).Microseconds())/1000)
				clock = at.Local().Format("15:04:05.000")
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", e.Topic, layer, since, clock, detail)
		}
		line("committed", e.Committed, "trace "+e.Trace)
		line("published", e.Published, "topic "+e.Topic+", message "+e.ID+reason(e.Status, e.Failure))
		line("consumed", e.Consumed, "")
		line("e-mailed", e.Sent, strings.ReplaceAll(e.Email, "published", "sent")+reason(e.Email, e.EmailFailure))
	}
	_ = table.Flush()
}

// reason says why the destination has not taken the event. An event that was published has none.
func reason(status, failure string) string {
	if status == "published" || failure == "" {
		return ""
	}
	return " (" + status + ": " + failure + ")"
}
