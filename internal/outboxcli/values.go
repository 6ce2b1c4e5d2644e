package outboxcli

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// text is a value that must not be empty. An empty value is probably a shell variable that is not
// set, and it must not select everything.
type text string

// UnmarshalText reads a value.
func (t *text) UnmarshalText(value []byte) error {
	if len(value) == 0 {
		return errors.New("it is empty")
	}
	*t = text(value)
	return nil
}

// moment is a time as people type it.
type moment struct {
	typed string
	asOf  func(now time.Time) time.Time // nil: there is none
}

// timeHelp is in the help of each command that has times.
const timeHelp = `A TIME is how long ago (90s, 30m, 24h, 7d, 1d12h), or when: 2026-01-31T08:00:00Z,
'2026-01-31 08:00', 2026-01-31, or 08:00, the last one. It is in UTC unless it has a zone.`

// UnmarshalText reads a time.
func (m *moment) UnmarshalText(value []byte) error {
	m.typed = string(value)
	if ago, err := parseAge(m.typed); err == nil && ago > 0 {
		m.asOf = func(now time.Time) time.Time { return now.Add(-ago) }
		return nil
	}
	if at, err := parseTime(m.typed, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"); err == nil {
		m.asOf = func(time.Time) time.Time { return at }
		return nil
	}
	if clock, err := parseTime(m.typed, "15:04"); err == nil {
		m.asOf = func(now time.Time) time.Time { return lastTime(clock, now.UTC()) }
		return nil
	}
	return errors.New("it is no time such as 90s, 24h, 7d, 2026-01-31T08:00:00Z, '2026-01-31 08:00', 2026-01-31 or 08:00")
}

// String returns it as it was typed. The record of a decision has it.
func (m moment) String() string { return m.typed }

var days = regexp.MustCompile(`^\d{1,5}d`)

// parseAge parses a duration that may begin with days.
func parseAge(value string) (time.Duration, error) {
	return time.ParseDuration(days.ReplaceAllStringFunc(value, func(found string) string {
		n, _ := strconv.Atoi(strings.TrimSuffix(found, "d")) // it is a number
		return strconv.Itoa(n*24) + "h"
	}))
}

// parseTime parses a time in one of the layouts, with a zone or without.
func parseTime(value string, layouts ...string) (at time.Time, err error) {
	for _, layout := range layouts {
		for _, zone := range []string{"", "Z07:00"} {
			if at, err = time.Parse(layout+zone, strings.Replace(value, " ", "T", 1)); err == nil {
				return at, nil
			}
		}
	}
	return at, err
}

// lastTime is the last time before now when a clock showed this.
func lastTime(clock, now time.Time) time.Time {
	hour, minute, _ := clock.UTC().Clock()
	at := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, time.UTC)
	if at.After(now) {
		at = at.AddDate(0, 0, -1)
	}
	return at
}
