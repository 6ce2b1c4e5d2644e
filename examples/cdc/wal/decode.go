package wal

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pglogrepl"

	"example.com/transactional-outbox/outbox/internal/store"
)

// decoder reads events from the messages of pgoutput. The server sends a transaction as a whole,
// after its commit: Begin, the rows, Commit. Before the first row of a table it sends the columns.
type decoder struct {
	columns map[uint32]positions // of each table
	events  []store.Event        // of the transaction
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
var columnsOfEvent = [...]string{
	"id", "topic", "aggregate", "aggregate_id", "version", "payload", "content_type", "headers", "traceparent", "created_at",
}

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

// readEvent reads a row of outbox_events. What is NULL there is empty here.
func readEvent(p positions, row *pglogrepl.TupleData) (e store.Event, err error) {
	column := func(i int) []byte { return row.Columns[p[i]].Data }
	text := func(i int) string { return string(column(i)) }
	e.Topic, e.Aggregate, e.AggregateID = text(1), text(2), text(3)
	e.ContentType, e.Headers, e.Traceparent = text(6), store.ParseHeaders(column(7)), text(8)
	if e.ID, err = uuid.ParseBytes(column(0)); err != nil {
		return e, fmt.Errorf("column id of %s: %w", table, err)
	}
	if e.Aggregate != "" {
		if e.Version, err = strconv.Atoi(text(4)); err != nil {
			return e, fmt.Errorf("column version of %s: %w", table, err)
		}
	}
	if e.Payload, err = hex.DecodeString(strings.TrimPrefix(text(5), `\x`)); err != nil {
		return e, fmt.Errorf("column payload of %s: %w", table, err)
	}
	if e.CreatedAt, err = time.Parse(timestampFormat, text(9)); err != nil {
		return e, fmt.Errorf("column created_at of %s: %w", table, err)
	}
	return e, nil
}
