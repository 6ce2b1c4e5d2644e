package cli

import (
	"flag"
	"fmt"
	"time"
)

// Moment is a time, or how long ago it was.
type Moment struct {
	at  time.Time
	ago time.Duration
}

// DefineMoment adds a flag that accepts both.
func DefineMoment(flags *flag.FlagSet, name, usage string) *Moment {
	m := new(Moment)
	flags.Func(name, usage, func(value string) (err error) {
		if m.at, err = time.Parse(time.RFC3339, value); err == nil {
			return nil
		}
		if m.ago, err = Duration(value); err != nil {
			return fmt.Errorf("%w, or a time such as 2026-01-31T08:00:00Z", err)
		}
		return nil
	})
	return m
}

// IsSet reports whether the flag was given.
func (m Moment) IsSet() bool { return m != Moment{} }

// AsOf returns the time, if it is now. It is the zero time if the flag was not given.
func (m Moment) AsOf(now time.Time) time.Time {
	if m.ago == 0 {
		return m.at
	}
	return now.Add(-m.ago)
}
