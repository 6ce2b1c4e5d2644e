package cli

import (
	"errors"
	"flag"
	"fmt"
	"time"
)

// DefineText adds a flag that must not be empty. An empty value is probably a shell variable that
// is not set, and it must not select everything.
func DefineText(flags *flag.FlagSet, name, usage, example string) *string {
	text := new(string)
	flags.Func(name, usage+", such as "+example, func(value string) error {
		if *text = value; value == "" {
			return fmt.Errorf("it is empty; %s is one", example)
		}
		return nil
	})
	return text
}

// DefineAge adds a flag for an age.
func DefineAge(flags *flag.FlagSet, name, usage string) *time.Duration {
	age := new(time.Duration)
	flags.Func(name, usage+", such as 90s or 1h", func(value string) (err error) {
		*age, err = Duration(value)
		return err
	})
	return age
}

// Duration parses a duration above zero.
func Duration(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, errors.New("give a duration above zero such as 90s, 30m or 24h")
	}
	return d, nil
}

// maxLimit protects against a typing error that prints for hours.
const maxLimit = 100_000

// Limit is the maximum number of things that a command prints.
type Limit struct{ N int }

// DefineLimit adds --limit.
func DefineLimit(flags *flag.FlagSet, noun Noun) *Limit {
	l := new(Limit)
	flags.IntVar(&l.N, "limit", 100, fmt.Sprintf("at most `N` %ss", noun))
	return l
}

// Check returns an error if the limit is out of range.
func (l Limit) Check() error {
	if l.N < 1 || l.N > maxLimit {
		return fmt.Errorf("--limit must be from 1 to %d", maxLimit)
	}
	return nil
}

// More returns a hint that the limit left some things out.
func (l Limit) More(filters string) string {
	return fmt.Sprintf("These are the first %d, and there are more. Use a larger --limit, or select with %s.\n", l.N, filters)
}

// DefineJSON adds --json.
func DefineJSON(flags *flag.FlagSet) *bool {
	return flags.Bool("json", false, "print one JSON object per line")
}

// DefineDryRun adds --dry-run.
func DefineDryRun(flags *flag.FlagSet) *bool {
	return flags.Bool("dry-run", false, "print what would happen, and change nothing")
}

// NoArguments returns an error if there are arguments that are not flags.
func NoArguments(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("it takes flags only, but got %q", args)
	}
	return nil
}
