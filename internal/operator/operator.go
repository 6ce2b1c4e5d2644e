// Package operator is what the services' commands for operators share: how their
// arguments are read, how they print, how they count, and how they get to the broker.
//
// What was asked for goes to stdout. Progress, and one line of the log for each thing
// that a command changed, go to stderr.
package operator

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
)

// Program is the commands behind one word of a service's command line. D is the desk
// at which they work: what a command needs to do anything.
type Program[D any] struct {
	Name     string // such as "order-service outbox"
	Commands []Command[D]
	Example  string // for its help
}

// Command is one of them.
type Command[D any] struct {
	Name, Arguments, Does string
	More                  string // for its help
	// Define adds the flags to a set; once they are parsed, the function that it
	// returns makes the action from them and from the other arguments.
	Define func(*flag.FlagSet) func(args []string) (Action[D], error)
}

// Action is a command with its arguments.
type Action[D any] func(context.Context, D) error

// Parse returns the action that args name. When they ask for help, it writes that to
// out and returns [flag.ErrHelp].
func (p Program[D]) Parse(args []string, out io.Writer) (Action[D], error) {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		p.help(out)
		return nil, flag.ErrHelp
	}
	chosen := slices.IndexFunc(p.Commands, func(c Command[D]) bool { return c.Name == args[0] })
	if chosen < 0 {
		return nil, fmt.Errorf("there is no command %q; `%s help` lists them", args[0], p.Name)
	}
	return p.parse(p.Commands[chosen], args[1:], out)
}

func (p Program[D]) parse(c Command[D], args []string, out io.Writer) (Action[D], error) {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned, and printed once
	take := c.Define(flags)
	others, err := interspersed(flags, args)
	if err == flag.ErrHelp { //nolint:errorlint // package flag returns it as it is
		p.helpOn(c, flags, out)
		return nil, err
	}
	var action Action[D]
	if err == nil {
		action, err = take(others)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; `%s %s -h` tells more", err, p.Name, c.Name)
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

func (p Program[D]) help(out io.Writer) {
	_, _ = fmt.Fprintf(out, "Usage: %s COMMAND [arguments] [flags]\n\n", p.Name)
	for _, c := range p.Commands {
		_, _ = fmt.Fprintf(out, "  %-10s %s\n", c.Name, c.Does)
	}
	_, _ = fmt.Fprintf(out, "\n%s COMMAND -h tells more of one. %s\n", p.Name, p.Example)
}

func (p Program[D]) helpOn(c Command[D], flags *flag.FlagSet, out io.Writer) {
	_, _ = fmt.Fprintf(out, "Usage: %s %s %s\n\n%s\n\n", p.Name, c.Name, c.Arguments, c.More)
	flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		_, _ = fmt.Fprintf(out, "  %-22s %s\n", "--"+f.Name+" "+value, usage)
	})
}
