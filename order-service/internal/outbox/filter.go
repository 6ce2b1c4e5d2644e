package outbox

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// Filter selects events. A zero field selects any.
type Filter struct {
	Status        string
	EventKey      string
	FailureCode   string
	ID            uuid.UUID
	IDs           []uuid.UUID // nil: any
	AggregateType string      // of AggregateID
	AggregateID   uuid.UUID
	From          time.Time // failed at this time or later; an event that has not failed: created
	Before        time.Time // failed before this time; an event that has not failed: created
}

// conditions are the conditions of a filter that it does not leave open, and their arguments. A
// condition that is not there needs no plan.
type conditions struct {
	sql  []string
	args postgres.Args
}

func (c *conditions) add(sql string, args postgres.Args) {
	c.sql = append(c.sql, sql)
	maps.Copy(c.args, args)
}

// sqlAfter returns the conditions after another one.
func (c *conditions) sqlAfter() string {
	var all strings.Builder
	for _, condition := range c.sql {
		all.WriteString(" AND " + condition)
	}
	return all.String()
}

// kind selects by reason and key.
func (f Filter) kind(codeColumn string) (c conditions) {
	c.args = postgres.Args{}
	if f.EventKey != "" {
		c.add("event_key = @event_key", postgres.Args{"event_key": f.EventKey})
	}
	if f.FailureCode != "" {
		c.add(codeColumn+" = @failure_code", postgres.Args{"failure_code": f.FailureCode})
	}
	return c
}

// times selects by the time of the failure.
func (f Filter) times(column string) (c conditions) {
	c.args = postgres.Args{}
	if !f.From.IsZero() {
		c.add(column+" >= @from", postgres.Args{"from": f.From})
	}
	if !f.Before.IsZero() {
		c.add(column+" < @before", postgres.Args{"before": f.Before})
	}
	return c
}

// one selects events by their ids or by their aggregate.
func (f Filter) one() (c conditions) {
	c.args = postgres.Args{}
	if f.ID != uuid.Nil {
		c.add("id = @id", postgres.Args{"id": f.ID})
	}
	if f.IDs != nil {
		c.add("id = ANY (@ids)", postgres.Args{"ids": uuids(f.IDs)})
	}
	if f.AggregateID != uuid.Nil {
		c.add("(aggregate_type, aggregate_id) = (@type, @aggregate)",
			postgres.Args{"type": f.AggregateType, "aggregate": f.AggregateID})
	}
	return c
}

// all returns all conditions, for the columns of the view.
func (f Filter) all() (c conditions) {
	c.args = postgres.Args{}
	c.add("status = @status", postgres.Args{"status": f.Status})
	// Only failed and discarded events have a failed_at.
	for _, more := range []conditions{f.one(), f.kind("failure_code"), f.times("coalesce(failed_at, created_at)")} {
		c.sql = append(c.sql, more.sql...)
		maps.Copy(c.args, more.args)
	}
	return c
}

// String says what the filter selects, for the record of a decision. It looks like the flags of a
// command; the command has only some of them.
func (f Filter) String() string {
	var flags []string
	for _, flag := range []struct{ name, value string }{
		{"--event-key", f.EventKey},
		{"--failure-code", f.FailureCode},
		{"--id", idOrEmpty(f.ID)},
		{"--order", idOrEmpty(f.AggregateID)},
		{"--since", timeOrEmpty(f.From)},
		{"--until", timeOrEmpty(f.Before)},
	} {
		if flag.value != "" {
			flags = append(flags, fmt.Sprintf("%s %s", flag.name, flag.value))
		}
	}
	return strings.Join(flags, " ")
}

func idOrEmpty(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

func timeOrEmpty(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}
