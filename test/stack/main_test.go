package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHelpNamesEveryCommand(t *testing.T) {
	var help bytes.Buffer
	must(t, run(t.Context(), []string{"help"}, &help, io.Discard))
	for _, c := range commands {
		if !strings.Contains(help.String(), "scripts/stack "+c.name) {
			t.Errorf("the help does not say how to call %s", c.name)
		}
	}
}

func TestWrongCalls(t *testing.T) {
	for name, args := range map[string][]string{
		"no command":          {},
		"help of a command":   {"up", "-h"},
		"an unknown flag":     {"down", "--now"},
		"a missing argument":  {"show"},
		"a surplus argument":  {"up", "quickly"},
		"two orders to show":  {"show", "1", "2"},
		"flags of no command": {"-h", "-x"},
	} {
		var help bytes.Buffer
		err := run(t.Context(), args, &help, &help)
		if err != nil && !errors.Is(err, flag.ErrHelp) || help.Len() == 0 {
			t.Errorf("%s: error %v, help %q", name, err, help.String())
		}
	}
	if err := run(t.Context(), []string{"sideways"}, io.Discard, io.Discard); err == nil {
		t.Error("an unknown command succeeded")
	}
}

func TestItRunsInTheRootOnly(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := run(t.Context(), []string{"down"}, io.Discard, io.Discard); err == nil {
		t.Error("down succeeded outside the repository")
	}
}

// fakeCheckout returns a folder that is accepted as the repository's root.
func fakeCheckout(t *testing.T) string {
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "scripts"), 0o700))
	must(t, os.WriteFile(filepath.Join(root, "scripts", "stack"), nil, 0o600))
	return root
}

// newStack returns a stack that prints to the test's log.
func newStack(t *testing.T) *stack {
	return &stack{out: t.Output(), log: t.Output(), state: newState()}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func shortContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
