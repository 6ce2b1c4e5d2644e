package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"example.com/transactional-outbox/test/edit"
)

// checkAll runs each test without the mistake and with it, in one copy.
func checkAll(ctx context.Context, out io.Writer) (err error) {
	tree, err := os.MkdirTemp("", "exercises-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tree)) }()
	if err := edit.CopyTree(ctx, ".", tree); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "N\tTEST\tWITHOUT\tWITH THE MISTAKE\n")
	var errs []error
	for i, e := range exercises {
		without, with, err := e.check(ctx, tree)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("exercise %d: %w", i+1, err))
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", i+1, e.test, without, with)
		fmt.Fprintf(os.Stderr, "%d: %s, %s\n", i+1, without, with)
	}
	return errors.Join(append(errs, table.Flush())...)
}

// check leaves the tree as it was.
func (e exercise) check(ctx context.Context, tree string) (without, with string, err error) {
	without, err = e.timed(ctx, tree, green)
	if err != nil {
		return without, "", err
	}
	if err := edit.Apply(tree, e.edits); err != nil {
		return without, "", err
	}
	with, err = e.timed(ctx, tree, red)
	for _, changed := range e.edits {
		content, readErr := os.ReadFile(changed.File)
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(tree, changed.File), content, 0o600)) //nolint:gosec // our own folder
	}
	return without, with, err
}

// timed returns an error unless the test has the result that is wanted.
func (e exercise) timed(ctx context.Context, tree string, want result) (string, error) {
	began := time.Now()
	seen, output := e.run(ctx, tree)
	text := fmt.Sprintf("%s, %.0f s", seen, time.Since(began).Seconds())
	if seen != want {
		return text, fmt.Errorf("%s is %s, want %s:\n%s", e.test, seen, want, output)
	}
	return text, nil
}
