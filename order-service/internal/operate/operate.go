// Package operate is the operators' commands on the outbox: list, show, replay,
// discard, republish. It reads their arguments and prints; the statements are the
// outbox's.
//
// What was asked for goes to stdout. Progress, and one line of the log for each event
// that a command changed, go to stderr.
package operate

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"

	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
)

const program = "order-service outbox"

// batchSize is how many events are changed in one transaction, read at a time, and
// under way to the broker at a time.
const batchSize = 500

// Desk is what an operator works at.
type Desk struct {
	Outbox   *outbox.Operator
	Relay    relay.Config // how an event looks to the broker
	Broker   Broker
	Out      io.Writer // what was asked for
	Progress io.Writer // how far long work is
	By       string    // who works here, for the log
}

// Broker runs use once, on a session with the broker.
type Broker func(ctx context.Context, use func(context.Context, relay.Broker) error) error

// Action is a command with its arguments.
type Action func(context.Context, Desk) error

// command is one of the words after "outbox".
type command struct {
	name, arguments, does string
	more                  string // for its help
	// define adds the flags to a set; once they are parsed, the function that it
	// returns makes the action from them and from the other arguments.
	define func(*flag.FlagSet) func(args []string) (Action, error)
}

var commands = []command{list, show, replay, discard, republish}

// Parse returns the action that args name. When they ask for help, it writes that to
// out and returns [flag.ErrHelp].
func Parse(args []string, out io.Writer) (Action, error) {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		help(out)
		return nil, flag.ErrHelp
	}
	chosen := slices.IndexFunc(commands, func(c command) bool { return c.name == args[0] })
	if chosen < 0 {
		return nil, fmt.Errorf("there is no command %q; `%s help` lists them", args[0], program)
	}
	return commands[chosen].parse(args[1:], out)
}

func (c command) parse(args []string, out io.Writer) (Action, error) {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned, and printed once
	take := c.define(flags)
	others, err := interspersed(flags, args)
	if err == flag.ErrHelp { //nolint:errorlint // package flag returns it as it is
		c.help(flags, out)
		return nil, err
	}
	var action Action
	if err == nil {
		action, err = take(others)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; `%s %s -h` tells more", err, program, c.name)
	}
	return action, nil
}

// interspersed lets flags stand before and after the other arguments, which it
// returns.
func interspersed(flags *flag.FlagSet, args []string) (others []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return others, nil
		}
		others, args = append(others, flags.Arg(0)), flags.Args()[1:]
	}
}

func help(out io.Writer) {
	_, _ = fmt.Fprintf(out, "Usage: %s COMMAND [arguments] [flags]\n\n", program)
	for _, c := range commands {
		_, _ = fmt.Fprintf(out, "  %-10s %s\n", c.name, c.does)
	}
	_, _ = fmt.Fprintf(out, `
%[1]s COMMAND -h tells more of one. For example, to see what failed and why, and to
send it again once the cause is gone:

  %[1]s list
  %[1]s replay --all --dry-run
  %[1]s replay --all
`, program)
}

func (c command) help(flags *flag.FlagSet, out io.Writer) {
	_, _ = fmt.Fprintf(out, "Usage: %s %s %s\n\n%s\n\n", program, c.name, c.arguments, c.more)
	flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		_, _ = fmt.Fprintf(out, "  %-22s %s\n", "--"+f.Name+" "+value, usage)
	})
}
