package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"example.com/transactional-outbox/test/edit"
)

// exercise is a mistake in a mechanism that one chapter explains.
type exercise struct {
	chapter string // its file in docs, without .md
	symptom string // what users or operators of the system see
	look    string // where the mistake is, roughly: a hint
	module  string // the folder of the module that has the test
	pkg     string // of the test
	test    string // turns red
	edits   []edit.Edit
}

// find returns the exercise of a chapter. The text is the number that the reader has typed.
func find(text string) (n int, e exercise, err error) {
	if _, err := fmt.Sscanf(text+"\n", "%d\n", &n); err != nil || n < 1 || n > len(exercises) {
		return 0, exercise{}, fmt.Errorf("there is no exercise N=%s: N is a number from 1 to %d, and `make exercise` lists them", text, len(exercises))
	}
	return n, exercises[n-1], nil
}

// folder is where the reader works, from the repository's root.
func folder(n int) string { return filepath.Join("build", "exercises", fmt.Sprintf("%02d", n)) }

// prepare makes the copy with the mistake, unless it is there: it may have the reader's work. A
// copy that is interrupted leaves no such folder, and two copies at the same time do not mix.
func (e exercise) prepare(ctx context.Context, from, tree string, fresh bool) (isNew bool, err error) {
	if fresh {
		if err := os.RemoveAll(tree); err != nil {
			return false, err
		}
	}
	if _, err := os.Stat(tree); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(tree), fs.ModePerm); err != nil {
		return false, err
	}
	incomplete, err := os.MkdirTemp(filepath.Dir(tree), filepath.Base(tree)+".incomplete-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(incomplete)) }()
	if err := edit.CopyTree(ctx, from, incomplete); err != nil {
		return false, err
	}
	if err := edit.Apply(incomplete, e.edits); err != nil {
		return false, fmt.Errorf("the code was changed where the mistake belongs; undo that change (git diff shows it): %w", err)
	}
	if err := os.Rename(incomplete, tree); err != nil {
		return false, fmt.Errorf("another process may have begun this exercise; run the command again: %w", err)
	}
	return true, nil
}

// shell is the command of the test for the reader.
func (e exercise) shell(n int) string {
	return fmt.Sprintf("cd %s && go test -count=1 -run '^%s$' %s", filepath.Join(folder(n), e.module), e.test, e.pkg)
}

type result int

const (
	red    result = iota + 1 // the test has failed
	green                    // it has passed
	broken                   // it did not run
)

func (r result) String() string { return [...]string{red: "red", green: "green", broken: "not run"}[r] }

// run runs the test in a copy.
func (e exercise) run(ctx context.Context, tree string) (result, string) {
	var output bytes.Buffer
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^"+e.test+"$", e.pkg) //nolint:gosec // of our list
	test.Dir = filepath.Join(tree, e.module)
	test.Stdout, test.Stderr = &output, &output
	err := test.Run()
	text := output.String()
	switch {
	case err == nil && !strings.Contains(text, "[no test"): // files, or tests to run
		return green, text
	case err != nil && strings.Contains(text, "--- FAIL: "+e.test+" ("):
		return red, text
	default:
		return broken, text
	}
}
