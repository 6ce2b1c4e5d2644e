// Command exercises gives a reader of the tutorial a copy of the code with one mistake in it, and a
// test that is red because of it. The reader makes the test green again.
//
// The list of exercises is in this folder, with their mistakes. So do not look at it before you
// have solved them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"text/tabwriter"
)

const usage = `usage: make exercise              list the exercises, one for each chapter
       make exercise N=5          begin exercise 5 in build/exercises/05; later: test your work there
       make exercise N=5 FRESH=1  begin it again: this deletes your work in build/exercises/05
       make exercise N=all        for maintainers: check that each test is red with its mistake, and
                                  green without it
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "exercise:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		fmt.Fprint(out, usage)
		return nil
	}
	n := os.Getenv("N")
	fresh, err := readFresh(n, os.Getenv("FRESH"))
	if err != nil {
		return err
	}
	switch n {
	case "":
		return list(out)
	case "all":
		return withServers(ctx, func() error { return checkAll(ctx, out) })
	default:
		return practise(ctx, n, fresh, out)
	}
}

// readFresh is strict, because FRESH=1 deletes the reader's work.
func readFresh(n, text string) (fresh bool, err error) {
	if text == "" {
		return false, nil
	}
	if fresh, err = strconv.ParseBool(text); err != nil {
		return false, fmt.Errorf("FRESH=%s is neither 1 nor 0: FRESH=1 begins an exercise again and deletes your work", text)
	}
	if fresh && (n == "" || n == "all") {
		return false, errors.New("FRESH=1 needs the number of one exercise, as in: make exercise N=5 FRESH=1")
	}
	return fresh, nil
}

func list(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "N\tCHAPTER\tWHAT GOES WRONG\n")
	for i, e := range exercises {
		fmt.Fprintf(table, "%d\tdocs/%s.md\t%s\n", i+1, e.chapter, e.symptom)
	}
	fmt.Fprint(table, "\nmake exercise N=5 begins exercise 5.\n")
	return table.Flush()
}

// practise begins an exercise, or tests the reader's work.
func practise(ctx context.Context, text string, fresh bool, out io.Writer) error {
	n, e, err := find(text)
	if err != nil {
		return err
	}
	tree := folder(n)
	isNew, err := e.prepare(ctx, ".", tree, fresh)
	if err != nil {
		return err
	}
	return withServers(ctx, func() error {
		seen, output := e.run(ctx, tree)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return report(out, n, e, isNew, seen, output)
	})
}
