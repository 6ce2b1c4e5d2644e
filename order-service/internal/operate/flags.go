package operate

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// defineKey adds --event-key. An empty one is a variable of a shell that was not set,
// and must not mean every event.
func defineKey(flags *flag.FlagSet) *string {
	key := new(string)
	flags.Func("event-key", "only events of this `KEY`, such as order.created", func(value string) error {
		if *key = value; value == "" {
			return errors.New("it is empty; order.created is one")
		}
		return nil
	})
	return key
}

// defineAge adds --older-than.
func defineAge(flags *flag.FlagSet) *time.Duration {
	age := new(time.Duration)
	flags.Func("older-than", "only events that failed (others: were created) this `TIME` ago or earlier, such as 90s or 1h",
		func(value string) (err error) {
			*age, err = duration(value)
			return err
		})
	return age
}

func defineJSON(flags *flag.FlagSet) *bool {
	return flags.Bool("json", false, "print one JSON object per line")
}

func defineDryRun(flags *flag.FlagSet) *bool {
	return flags.Bool("dry-run", false, "print what would happen, and change nothing")
}

// moment is a time, given as such or as how long ago it was.
type moment struct {
	at  time.Time
	ago time.Duration
}

// defineMoment adds a flag that takes either.
func defineMoment(flags *flag.FlagSet, name, usage string) *moment {
	m := new(moment)
	flags.Func(name, usage, func(value string) (err error) {
		if m.at, err = time.Parse(time.RFC3339, value); err == nil {
			return nil
		}
		if m.ago, err = duration(value); err != nil {
			return fmt.Errorf("%w, or a time such as 2026-01-31T08:00:00Z", err)
		}
		return nil
	})
	return m
}

func (m moment) given() bool { return m != moment{} }

// before returns the moment as it is by a clock that says now.
func (m moment) before(now time.Time) time.Time {
	if m.at.IsZero() {
		return now.Add(-m.ago)
	}
	return m.at
}

func duration(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, errors.New("give a duration above zero such as 90s, 30m or 24h")
	}
	return d, nil
}

// identifiers reads the ids of events.
func identifiers(args []string) ([]uuid.UUID, error) {
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

func noOthers(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("it takes flags only, but got %q", args)
	}
	return nil
}
