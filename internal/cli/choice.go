package cli

import (
	"flag"
	"fmt"
	"strings"
)

// Choice says what a command changes: the named ids, everything that matches the filters, or, with
// --all, everything. Without any of them, Check returns an error.
type Choice struct {
	Noun    Noun
	Every   string   // "every failed event"
	Filters []string // the flags of the filters
	all     *bool
}

// Define adds --all.
func (c *Choice) Define(flags *flag.FlagSet) { c.all = flags.Bool("all", false, c.Every) }

// Check returns an error if the choice is not clear. Named is the number of ids.
func (c *Choice) Check(verb string, named int, filtered bool) error {
	filters := strings.Join(c.Filters, ", ")
	switch {
	case named > 0 && (filtered || *c.all):
		return fmt.Errorf("ids and filters do not go together: give the ids of %ss, or use %s or --all", c.Noun, filters)
	case *c.all && filtered:
		return fmt.Errorf("--all is %s: leave out either --all or the filters", c.Every)
	case named == 0 && !filtered && !*c.all:
		return fmt.Errorf("say which %ss to %s: ids, %s, or --all; --dry-run changes nothing", c.Noun, verb, filters)
	}
	return nil
}
