// Package cli has the shared parts of the services' commands for operators: reading the
// arguments, printing, counting, and connecting to the broker.
//
// A command prints its result to stdout. It writes its progress to stderr, and one log line for
// each thing that it changed.
package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
)

// Program is a group of commands, such as all commands of "order-service outbox". D is the type of
// the dependencies that each command gets, such as the database.
type Program[D any] struct {
	Name     string // such as "order-service outbox"
	Commands []Command[D]
	Example  string // for its help
}

// Command is one command of a program.
type Command[D any] struct {
	Name, Arguments, Does string
	More                  string // for its help
	// Define adds the command's flags to a set. It returns a function that makes the action. That
	// function is called after the flags are parsed, with the other arguments.
	Define func(*flag.FlagSet) func(args []string) (Action[D], error)
}

// Action is a command with its arguments.
type Action[D any] func(context.Context, D) error

// Parse returns the action that args name. If they ask for help, it writes the help to out and
// returns [flag.ErrHelp].
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
	makeAction := c.Define(flags)
	arguments, err := parseInterspersed(flags, args)
	if err == flag.ErrHelp { //nolint:errorlint // package flag does not wrap it
		p.helpOn(c, flags, out)
		return nil, err
	}
	var action Action[D]
	if err == nil {
		action, err = makeAction(arguments)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; `%s %s -h` prints its help", err, p.Name, c.Name)
	}
	return action, nil
}

// parseInterspersed parses flags before, between and after the other arguments. It returns the
// other arguments.
func parseInterspersed(flags *flag.FlagSet, args []string) (others []string, err error) {
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
	_, _ = fmt.Fprintf(out, "\n%s COMMAND -h prints the help of a command. %s\n", p.Name, p.Example)
}

func (p Program[D]) helpOn(c Command[D], flags *flag.FlagSet, out io.Writer) {
	_, _ = fmt.Fprintf(out, "Usage: %s %s %s\n\n%s\n\n", p.Name, c.Name, c.Arguments, c.More)
	flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		_, _ = fmt.Fprintf(out, "  %-22s %s\n", "--"+f.Name+" "+value, usage)
	})
}
