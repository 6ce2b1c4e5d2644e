package operator

import (
	"errors"
	"flag"
	"fmt"
	"time"
)

// DefineText adds a flag that must not be empty: that would be a variable of a shell
// that was not set, and must not mean everything.
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

// DefineAge adds a flag that takes how long ago something was.
func DefineAge(flags *flag.FlagSet, name, usage string) *time.Duration {
	age := new(time.Duration)
	flags.Func(name, usage+", such as 90s or 1h", func(value string) (err error) {
		*age, err = Duration(value)
		return err
	})
	return age
}

// Duration reads a duration above zero.
func Duration(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, errors.New("give a duration above zero such as 90s, 30m or 24h")
	}
	return d, nil
}

// maxLimit keeps a slip of the finger from printing for hours.
const maxLimit = 100_000

// Limit is how many things a command prints.
type Limit struct{ N int }

// DefineLimit adds --limit.
func DefineLimit(flags *flag.FlagSet, noun Noun) *Limit {
	l := new(Limit)
	flags.IntVar(&l.N, "limit", 100, fmt.Sprintf("at most `N` %ss", noun))
	return l
}

// Check returns what is wrong with it.
func (l Limit) Check() error {
	if l.N < 1 || l.N > maxLimit {
		return fmt.Errorf("--limit must be from 1 to %d", maxLimit)
	}
	return nil
}

// More tells that the limit left some out.
func (l Limit) More(filters string) string {
	return fmt.Sprintf("These are the first %d, and there are more: --limit shows them, %s choose.\n", l.N, filters)
}

// DefineJSON adds --json.
func DefineJSON(flags *flag.FlagSet) *bool {
	return flags.Bool("json", false, "print one JSON object per line")
}

// DefineDryRun adds --dry-run.
func DefineDryRun(flags *flag.FlagSet) *bool {
	return flags.Bool("dry-run", false, "print what would happen, and change nothing")
}

// NoOthers refuses arguments that are not flags.
func NoOthers(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("it takes flags only, but got %q", args)
	}
	return nil
}
