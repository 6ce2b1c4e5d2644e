package deadletter

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Filter chooses dead letters: those that have all of what is set. The zero Filter chooses all.
type Filter struct {
	IDs        []string      // one of these ids
	Reason     string        // this code
	RoutingKey string        // this routing key
	OlderThan  time.Duration // failed this long ago, or earlier
	Since      time.Time     // failed then, or later
	Until      time.Time     // failed before
}

// Empty reports whether the filter chooses all.
func (f Filter) Empty() bool {
	return len(f.IDs) == 0 && f.Reason == "" && f.RoutingKey == "" && f.OlderThan == 0 && f.Since.IsZero() && f.Until.IsZero()
}

// Matches reports whether the filter chooses a dead letter. A dead letter without a time of failure
// is never old, and in no range of time.
func (f Filter) Matches(l DeadLetter) bool {
	return (len(f.IDs) == 0 || slices.Contains(f.IDs, l.ID)) &&
		(f.Reason == "" || f.Reason == l.Code) &&
		(f.RoutingKey == "" || f.RoutingKey == l.RoutingKey) &&
		(f.OlderThan == 0 || l.Age != nil && *l.Age >= f.OlderThan.Seconds()) &&
		(f.Since.IsZero() || l.FailedAt != nil && !l.FailedAt.Before(f.Since)) &&
		(f.Until.IsZero() || l.FailedAt != nil && l.FailedAt.Before(f.Until))
}

// String returns the filter as the arguments of a command: the ids, the flags, or --all.
func (f Filter) String() string {
	var words []string
	flag := func(set bool, name, value string) {
		if set {
			words = append(words, name, quote(value))
		}
	}
	for _, id := range f.IDs {
		words = append(words, quote(id))
	}
	flag(f.Reason != "", "--reason", f.Reason)
	flag(f.RoutingKey != "", "--routing-key", f.RoutingKey)
	flag(f.OlderThan != 0, "--older-than", f.OlderThan.String())
	flag(!f.Since.IsZero(), "--since", f.Since.UTC().Format(time.RFC3339Nano))
	flag(!f.Until.IsZero(), "--until", f.Until.UTC().Format(time.RFC3339Nano))
	if len(words) == 0 {
		return "--all"
	}
	return strings.Join(words, " ")
}

// quote quotes a value unless it is of letters, digits and signs that no shell interprets. So the
// result has no bytes that a database or a terminal refuses.
func quote(value string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:@+-", r)
	}
	if value != "" && strings.IndexFunc(value, func(r rune) bool { return !plain(r) }) < 0 {
		return value
	}
	return fmt.Sprintf("%+q", value)
}
