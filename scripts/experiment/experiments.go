package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// experiment is one way to break the system.
type experiment struct {
	name   string
	breaks string // what is broken
	stake  string // the promise that this puts to the test
	shows  string // what there is to see
	run    func(context.Context, *lab) error
	kept   string // what is proven when all went well
}

var experiments = []experiment{stopBroker, killRelay, killConsumer, deliverTwice, poison}

func printUsage(w io.Writer) {
	fmt.Fprint(w, "Breaks the running system (make demo), mends it, and verifies what it promises:\n\n")
	for _, e := range experiments {
		fmt.Fprintf(w, "  scripts/break/%-14s %s\n", e.name, e.breaks)
	}
}

func (e experiment) printHelp(w io.Writer) {
	fmt.Fprintf(w, "%s\nAt stake: %s\n\n%s\nExit status: 0 if it was kept, 1 if not, 2 if it was not tried.\n", e.breaks, e.stake, e.shows)
}

// perform breaks, mends and judges.
func (e experiment) perform(ctx context.Context, where settings, out io.Writer) (err error) {
	l, err := open(ctx, where, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	l.say("%s\nAt stake: %s\n", e.breaks, e.stake)
	if err := e.run(ctx, l); err != nil {
		l.say("putting back what was changed")
		return interrupted(ctx, err)
	}
	if err := l.verdict(); err != nil {
		return err
	}
	l.say("\nkept: %s", e.kept)
	return nil
}

// interrupted leaves out what fails because somebody has pressed Ctrl-C.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}
