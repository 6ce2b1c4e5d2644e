package operate

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Filter selects events. A zero field selects any.
type Filter struct {
	Status      string
	Topic       string
	FailureCode string
	ID          uuid.UUID
	IDs         []uuid.UUID // nil: any
	Aggregate   string      // with AggregateID
	AggregateID string
	From        time.Time // failed at this time or later; an event that has not failed: created
	Before      time.Time // failed before this time; an event that has not failed: created
}

// conditions are the conditions of a filter that it does not leave open, and their arguments. A
// condition that is not there needs no plan.
type conditions struct {
	sql  strings.Builder // each after an AND
	args args
}

func (c *conditions) add(sql string, a args) {
	c.sql.WriteString(" AND " + sql)
	maps.Copy(c.args, a)
}

// kind selects by reason and topic.
func (f Filter) kind() *conditions {
	c := &conditions{args: args{}}
	if f.Topic != "" {
		c.add("topic = cast(@topic AS text)", args{"topic": f.Topic})
	}
	if f.FailureCode != "" {
		c.add("code = cast(@failure_code AS text)", args{"failure_code": f.FailureCode})
	}
	return c
}

// times selects by the time of the failure.
func (f Filter) times(column string) *conditions {
	c := &conditions{args: args{}}
	if !f.From.IsZero() {
		c.add(column+" >= cast(@from AS timestamptz)", args{"from": f.From})
	}
	if !f.Before.IsZero() {
		c.add(column+" < cast(@before AS timestamptz)", args{"before": f.Before})
	}
	return c
}

// one selects events by their ids or by their aggregate.
func (f Filter) one() *conditions {
	c := &conditions{args: args{}}
	if f.ID != uuid.Nil {
		c.add("id = cast(@id AS uuid)", args{"id": f.ID.String()})
	}
	if f.IDs != nil {
		c.add("id = ANY (cast(cast(@ids AS text) AS uuid[]))", args{"ids": store.IDs(f.IDs)})
	}
	if f.AggregateID != "" {
		c.add("aggregate = cast(@aggregate AS text) AND aggregate_id = cast(@aggregate_id AS text)",
			args{"aggregate": f.Aggregate, "aggregate_id": f.AggregateID})
	}
	return c
}

// String says what the filter selects, for the record of a decision. It looks like the flags of a
// command; the command has only some of them.
func (f Filter) String() string {
	var flags []string
	for _, flag := range []struct{ name, value string }{
		{"--topic", f.Topic},
		{"--failure-code", f.FailureCode},
		{"--id", idOrEmpty(f.ID)},
		{"--" + f.Aggregate, f.AggregateID},
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
