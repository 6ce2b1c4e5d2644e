package operator

import (
	"flag"
	"fmt"
	"strings"
)

// Choice is of what a command changes: what is named, what filters fit, or, if it is
// said, everything. Nothing said is never everything.
type Choice struct {
	Noun    Noun
	Every   string   // "every failed event"
	Filters []string // their flags
	all     *bool
}

// Define adds --all.
func (c *Choice) Define(flags *flag.FlagSet) { c.all = flags.Bool("all", false, c.Every) }

// Check returns why the choice is not clear. Named is how many are named.
func (c *Choice) Check(verb string, named int, filtered bool) error {
	filters := strings.Join(c.Filters, ", ")
	switch {
	case named > 0 && (filtered || *c.all):
		return fmt.Errorf("ids and filters do not go together: name %ss by their ids, or choose them by %s or --all", c.Noun, filters)
	case *c.all && filtered:
		return fmt.Errorf("--all is %s: leave it out, or the filters", c.Every)
	case named == 0 && !filtered && !*c.all:
		return fmt.Errorf("say which %ss to %s: ids, %s, or --all; with --dry-run nothing is changed", c.Noun, verb, filters)
	}
	return nil
}
