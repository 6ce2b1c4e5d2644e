package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
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
	ID, Topic, Trace, Status             string
	Email                                string // its status; empty until the event is consumed
	Committed, Published, Consumed, Sent *time.Time
}

// An event is committed with its order, so its created_at is the time of the order.
const eventsQuery = `
SELECT id::text, topic, coalesce(nullif(split_part(traceparent, '-', 2), ''), 'none') AS trace, status, '' AS email,
       created_at AS committed, published_at AS published, null::timestamptz AS consumed, null::timestamptz AS sent
FROM outbox_status
WHERE aggregate = 'order' AND aggregate_id = $1
ORDER BY version`

// If a message was processed and there is no e-mail, a newer event of the order came first.
const emailQuery = `
SELECT coalesce(replace(e.status, 'published', 'sent'), 'superseded'), m.processed_at, e.published_at
FROM processed_messages m
LEFT JOIN outbox_status e ON e.id = $1
WHERE m.message_id = cast($1 AS uuid)::text`

// show waits until an order's e-mail is sent, and prints when its events passed each layer.
func (s *stack) show(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("show", flag.ContinueOnError)
	flags.SetOutput(s.log)
	orderDB := flags.String("order-db", s.state.Databases["order-service"], "`URL` of order-service's database")
	notificationDB := flags.String("notification-db", s.state.Databases["notification-service"], "`URL` of notification-service's")
	if flags.Parse(args) != nil || flags.NArg() != 1 || uuid.Validate(flags.Arg(0)) != nil {
		return errUsage
	}
	if *orderDB == "" || *notificationDB == "" {
		return errNotUp
	}
	ctx, cancel := context.WithTimeout(ctx, arrivalTimeout)
	defer cancel()
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
	var events []event
	for {
		latest, err := readEvents(ctx, orders, notifications, flags.Arg(0))
		if err == nil {
			events = latest
		}
		if err == nil && slices.ContainsFunc(events, event.moves) {
			time.Sleep(showInterval)
			continue
		}
		printEvents(s.out, flags.Arg(0), events)
		if ctx.Err() != nil || err == nil && slices.ContainsFunc(events, event.onItsWay) {
			err = errors.New("the order has not passed every layer; the page and the services' logs say why")
		}
		return err
	}
}

// onItsWay reports whether the event, or its e-mail, has yet to pass a layer. A customer gets the
// e-mail of a newer event instead of one that is superseded.
func (e event) onItsWay() bool {
	return e.Published == nil || e.Sent == nil && e.Email != "superseded"
}

// moves reports whether the event is on its way without an operator.
func (e event) moves() bool {
	return e.onItsWay() && !slices.ContainsFunc([]string{e.Status, e.Email}, func(status string) bool {
		return status == "failed" || status == "discarded"
	})
}

// readEvents returns the order's events, the oldest first. Only a tool like this reads both
// services' databases.
func readEvents(ctx context.Context, orders, notifications *pgx.Conn, orderID string) ([]event, error) {
	rows, _ := orders.Query(ctx, eventsQuery, orderID)
	events, err := pgx.CollectRows(rows, pgx.RowToStructByName[event])
	if err == nil && len(events) == 0 {
		err = fmt.Errorf("there is no order %s, or its events are older than the retention and were deleted", orderID)
	}
	for i := range events {
		e := &events[i]
		read := notifications.QueryRow(ctx, emailQuery, e.ID).Scan(&e.Email, &e.Consumed, &e.Sent)
		if !errors.Is(read, pgx.ErrNoRows) {
			err = errors.Join(err, read)
		}
	}
	return events, err
}

// printEvents prints one line for each layer of each event.
func printEvents(w io.Writer, orderID string, events []event) {
	fmt.Fprintf(w, "order %s\n\n", orderID)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EVENT\tLAYER\tSINCE COMMIT\tAT\tDETAIL")
	for _, e := range events {
		for _, l := range []struct {
			name, detail string
			at           *time.Time
		}{
			{"committed", "trace " + e.Trace, e.Committed},
			{"published", "message " + e.ID + ", " + e.Status, e.Published},
			{"consumed", "", e.Consumed},
			{"e-mailed", e.Email, e.Sent},
		} {
			since, clock := "-", "-"
			if l.at != nil {
				since = fmt.Sprintf("%9.1f ms", float64(l.at.Sub(*e.Committed).Microseconds())/1000)
				clock = l.at.Local().Format("15:04:05.000")
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", e.Topic, l.name, since, clock, l.detail)
		}
	}
	_ = table.Flush()
}
