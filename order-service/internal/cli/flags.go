package cli

import (
	"flag"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
)

// defineKey adds --event-key.
func defineKey(flags *flag.FlagSet) *string {
	return cli.DefineText(flags, "event-key", "only events of this `KEY`", "order.created")
}

// defineAge adds --older-than.
func defineAge(flags *flag.FlagSet) *time.Duration {
	return cli.DefineAge(flags, "older-than", "only events that failed (others: were created) this `TIME` ago or earlier")
}

// moment is a time, or how long ago it was.
type moment struct {
	at  time.Time
	ago time.Duration
}

// defineMoment adds a flag that accepts both.
func defineMoment(flags *flag.FlagSet, name, usage string) *moment {
	m := new(moment)
	flags.Func(name, usage, func(value string) (err error) {
		if m.at, err = time.Parse(time.RFC3339, value); err == nil {
			return nil
		}
		if m.ago, err = cli.Duration(value); err != nil {
			return fmt.Errorf("%w, or a time such as 2026-01-31T08:00:00Z", err)
		}
		return nil
	})
	return m
}

func (m moment) isSet() bool { return m != moment{} }

// asOf returns the time, if it is now.
func (m moment) asOf(now time.Time) time.Time {
	if m.at.IsZero() {
		return now.Add(-m.ago)
	}
	return m.at
}

// parseIDs parses the ids of events.
func parseIDs(args []string) ([]uuid.UUID, error) {
	ids := make([]uuid.UUID, 0, len(args))
	for _, arg := range args {
		id, err := uuid.Parse(arg)
		if err != nil {
			return nil, fmt.Errorf("%q is not the id of an event; `%s list` shows ids", arg, program)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
