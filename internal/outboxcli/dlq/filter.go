package dlq

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// filters are the flags of a filter.
var filters = []string{"--reason", "--routing-key", "--older-than"}

// filterFlags are the values of the flags.
type filterFlags struct {
	reason, key *string
	age         *time.Duration
}

func defineFilter(flags *flag.FlagSet) filterFlags {
	return filterFlags{
		reason: cli.DefineText(flags, "reason", "only messages with this `CODE`", "retries-exhausted"),
		key:    cli.DefineText(flags, "routing-key", "only messages with this `KEY`", "order.created"),
		age:    cli.DefineAge(flags, "older-than", "only messages that failed this `TIME` ago or earlier"),
	}
}

// filter returns the filter that the flags and the ids make. Call it after the flags are parsed.
func (f filterFlags) filter(ids []string) filter {
	return filter{ids, *f.reason, *f.key, *f.age}
}

// filter chooses dead letters: those that have all of what is set. The zero filter chooses all.
type filter struct {
	ids       []string
	code, key string
	age       time.Duration // failed this long ago, or earlier
}

func (f filter) empty() bool { return len(f.ids) == 0 && f.String() == "--all" }

// matches reports whether the filter chooses a dead letter. One without a time of failure is never
// old.
func (f filter) matches(l rabbitmq.DeadLetter, now time.Time) bool {
	return (len(f.ids) == 0 || slices.Contains(f.ids, l.ID)) &&
		(f.code == "" || f.code == l.Code) &&
		(f.key == "" || f.key == l.RoutingKey) &&
		(f.age == 0 || !l.FailedAt.IsZero() && now.Sub(l.FailedAt) >= f.age)
}

// String returns the flags of a command, or --all. The record of a decision has it.
func (f filter) String() string {
	var words []string
	add := func(set bool, name, value string) {
		if set {
			words = append(words, name, quote(value))
		}
	}
	add(f.code != "", "--reason", f.code)
	add(f.key != "", "--routing-key", f.key)
	add(f.age != 0, "--older-than", f.age.String())
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

// identifiers reads the ids of messages. Publishers choose them, so they need not be UUIDs.
func identifiers(program string, args []string) ([]string, error) {
	if slices.Contains(args, "") {
		return nil, fmt.Errorf("one of the ids is empty; `%s list` shows ids, and --reason chooses messages without one", program)
	}
	return slices.Compact(slices.Sorted(slices.Values(args))), nil
}

// identifier reads one id.
func identifier(program string, args []string) ([]string, error) {
	ids, err := identifiers(program, args)
	if err == nil && len(ids) != 1 {
		err = errors.New("name one message by its id")
	}
	return ids, err
}

// notFound is the error text for an id that no message had.
func notFound(program, id string) string {
	return fmt.Sprintf("%s is not in the queue, or another operator's command holds it; `%s list` shows ids", id, program)
}
