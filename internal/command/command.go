// Package command runs a service's commands. It picks the command that the arguments name,
// and cancels the command's context on SIGINT or SIGTERM.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/internal/telemetry"
)

// Command is one thing that a program can do.
type Command struct {
	Name string
	Does string // for the help
	Run  func(ctx context.Context, args []string) error
}

// maxDrain is how long a process may take to end after the first signal. After that it exits
// at once. This is safe: leases and missing acknowledgements make others repeat the work. A test
// shortens it.
var maxDrain = 25 * time.Second

// Main runs the command that the arguments name, and exits. Without arguments it runs the first
// command. SIGINT and SIGTERM cancel the command's context. A second signal ends the process
// at once. The exit status after an error is 1, or that of its method ExitStatus.
func Main(service string, commands ...Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		stop()
		time.AfterFunc(maxDrain, exitAfterDrainLimit)
	})
	if err := run(ctx, service, commands, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", service, err)
		os.Exit(status(err))
	}
}

// status is the exit status for an error: 1, unless the error has another.
func status(err error) int {
	if own, ok := errors.AsType[interface {
		error
		ExitStatus() int
	}](err); ok {
		return own.ExitStatus()
	}
	return 1
}

func exitAfterDrainLimit() {
	slog.Error("the drain took too long, leaving", "after", maxDrain.String())
	os.Exit(1)
}

func run(ctx context.Context, service string, commands []Command, args []string, out io.Writer) error {
	if len(args) == 0 {
		return commands[0].Run(ctx, nil)
	}
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		help(service, commands, out)
		return nil
	}
	if slices.Contains([]string{"version", "-version", "--version"}, args[0]) {
		number, commit := telemetry.Version()
		_, err := fmt.Fprintf(out, "%s %s, commit %s, %s\n", service, number, commit, runtime.Version())
		return err
	}
	chosen := slices.IndexFunc(commands, func(c Command) bool { return c.Name == args[0] })
	if chosen < 0 {
		return fmt.Errorf("there is no command %q; `%s help` lists them", args[0], service)
	}
	return commands[chosen].Run(ctx, args[1:])
}

func help(service string, commands []Command, out io.Writer) {
	_, _ = fmt.Fprintf(out, "Usage: %s [command]\n\n", service)
	for _, c := range commands {
		_, _ = fmt.Fprintf(out, "  %-12s %s\n", c.Name, c.Does)
	}
	_, _ = fmt.Fprintf(out, "  %-12s %s\n", "version", "print the version (or --version)")
	_, _ = fmt.Fprintln(out, "\nSettings are environment variables; docs/reference.md lists them.\nThe program ends with an error if a setting is wrong, or missing without a default.")
}

// Configured returns the Run function of a command that has settings and no arguments. The
// function reads the settings, sets up logs and traces, and runs action.
func Configured[C configuration](
	service string, check func(C) []error, action func(context.Context, C) error,
) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("this command takes no arguments, but got %q", args)
		}
		return configure(ctx, service, check, os.Stdout, action)
	}
}

// WithArguments returns the Run function of a command for people. The command's output goes to
// stdout, so its log goes to stderr.
//
// Parse reads the arguments and returns the action, or [flag.ErrHelp] after it has printed the
// help. It runs before the settings are read, because help needs no settings.
func WithArguments[C configuration](
	service string, check func(C) []error, parse func(args []string) (action func(context.Context, C) error, err error),
) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		action, err := parse(args)
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		if err != nil {
			return err
		}
		return configure(ctx, service, check, os.Stderr, action)
	}
}

// configuration is what every service's settings have.
type configuration interface{ Level() slog.Level }

func configure[C configuration](
	ctx context.Context, service string, check func(C) []error, log io.Writer, action func(context.Context, C) error,
) error {
	config, err := settings.Parse(check)
	if err != nil {
		return fmt.Errorf("these settings are wrong:\n%w", err)
	}
	defer telemetry.Setup(ctx, log, service, config.Level())()
	return action(ctx, config)
}
