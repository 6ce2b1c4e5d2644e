package wal

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pglogrepl"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// decoder reads events from the messages of pgoutput. The server sends a transaction as a whole,
// after its commit: Begin, the rows, Commit. Before the first row of a table it sends the columns.
type decoder struct {
	columns map[uint32]positions // of each table
	events  []outbox.Claimed     // of the transaction
	inside  bool                 // between Begin and Commit
}

func newDecoder() *decoder { return &decoder{columns: map[uint32]positions{}} }

// decode returns the commit that ends a transaction, or nil.
func (d *decoder) decode(data []byte) (*pglogrepl.CommitMessage, error) {
	parsed, err := pglogrepl.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("pgoutput: %w", err)
	}
	switch m := parsed.(type) {
	case *pglogrepl.BeginMessage:
		d.inside, d.events = true, nil
	case *pglogrepl.RelationMessage:
		if d.columns[m.RelationID], err = findColumns(m); err != nil {
			return nil, err
		}
	case *pglogrepl.InsertMessage:
		event, err := readEvent(d.columns[m.RelationID], m.Tuple)
		if err != nil {
			return nil, err
		}
		d.events = append(d.events, event)
	case *pglogrepl.CommitMessage:
		d.inside = false
		return m, nil
	}
	return nil, nil
}

// columnsOfEvent are those of outbox_events that an event needs.
var columnsOfEvent = [...]string{"id", "aggregate_id", "event_key", "payload", "traceparent", "created_at"}

// positions are where the columns of an event are in a row.
type positions [len(columnsOfEvent)]int

// findColumns returns an error if the publication has a list of columns that lacks one.
func findColumns(m *pglogrepl.RelationMessage) (p positions, err error) {
	for i, name := range columnsOfEvent {
		p[i] = slices.IndexFunc(m.Columns, func(c *pglogrepl.RelationMessageColumn) bool { return c.Name == name })
		if p[i] < 0 {
			return p, fmt.Errorf("the publication does not have the column %s of %s", name, m.RelationName)
		}
	}
	return p, nil
}

// timestampFormat is that of timestamptz with DateStyle ISO and TimeZone UTC.
const timestampFormat = "2006-01-02 15:04:05.999999-07"

// readEvent reads a row of outbox_events.
func readEvent(p positions, row *pglogrepl.TupleData) (e outbox.Claimed, err error) {
	column := func(i int) []byte { return row.Columns[p[i]].Data }
	if e.ID, err = uuid.ParseBytes(column(0)); err != nil {
		return e, fmt.Errorf("column id of %s: %w", table, err)
	}
	if e.AggregateID, err = uuid.ParseBytes(column(1)); err != nil {
		return e, fmt.Errorf("column aggregate_id of %s: %w", table, err)
	}
	if e.CreatedAt, err = time.Parse(timestampFormat, string(column(5))); err != nil {
		return e, fmt.Errorf("column created_at of %s: %w", table, err)
	}
	e.EventKey, e.Payload, e.Traceparent = string(column(2)), string(column(3)), string(column(4))
	return e, nil
}
