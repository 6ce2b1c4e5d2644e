package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// experiment breaks the system in one way.
type experiment struct {
	name        string
	breaks      string // what is broken
	promise     string // the tested promise
	description string // what the user sees
	watch       string // where to look on the page meanwhile, and what is there
	run         func(context.Context, *lab) error
	result      string // the result if the promise was kept
}

var experiments = []experiment{stopBroker, killRelay, killConsumer, deliverTwice, poison, lockOrder}

func printUsage(w io.Writer) {
	fmt.Fprint(w, "Breaks the running system (make demo), repairs it, and checks its promises:\n\n")
	for _, e := range experiments {
		fmt.Fprintf(w, "  scripts/break/%-14s %s\n", e.name, e.breaks)
	}
}

func (e experiment) printHelp(w io.Writer) {
	fmt.Fprintf(w, "%s\nTested: %s\n\n%s\nExit status: 0 if the promise was kept, 1 if it was broken, 2 if nothing was tried.\n", e.breaks, e.promise, e.description)
}

// perform runs the experiment, and prints the result.
func (e experiment) perform(ctx context.Context, where settings, out io.Writer) (err error) {
	l, err := open(ctx, where, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	l.printf("%s\nTested: %s\nWatch it: %s\n", e.breaks, e.promise, e.watch)
	if err := e.run(ctx, l); err != nil {
		l.printf("undoing the changes")
		return interrupted(ctx, err)
	}
	if err := l.verdict(); err != nil {
		return err
	}
	l.printf("\nkept: %s", e.result)
	return nil
}

// interrupted hides the errors that Ctrl-C has caused.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}
