// Command break breaks the running system in one of six ways, and checks whether it keeps its
// promises. scripts/break has a script for each.
//
// It uses the normal programs: it stops servers, kills services, locks a row, and delays one statement
// with a trigger, so that the kill happens at the critical point. At the end it undoes all changes, also
// after Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2) // the help has been printed
	case errors.Is(err, errNotTried):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2) // nothing was broken
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// settings say where the system is.
type settings struct {
	mode                    string // compose or processes, written by scripts/up
	orderDB, notificationDB string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var where settings
	flags := flag.NewFlagSet("experiment", flag.ContinueOnError)
	flags.Usage = func() { printUsage(flags.Output()) }
	flags.StringVar(&where.mode, "mode", "", "how the system runs: compose or processes")
	flags.StringVar(&where.orderDB, "order-db", "", "`URL` of order-service's database, as its owner")
	flags.StringVar(&where.notificationDB, "notification-db", "", "`URL` of notification-service's")
	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp // Parse has printed the error
	}
	i := slices.IndexFunc(experiments, func(e experiment) bool { return e.name == flags.Arg(0) })
	if i < 0 {
		printUsage(flags.Output())
		return flag.ErrHelp
	}
	if flags.NArg() == 1 {
		return experiments[i].perform(ctx, where, out)
	}
	experiments[i].printHelp(out)
	if slices.Contains([]string{"-h", "--help", "help"}, flags.Arg(1)) {
		return nil
	}
	return flag.ErrHelp
}
