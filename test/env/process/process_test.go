// Package process_test proves that a process dies with its parent. test/stack proves that a process
// is found by its identity.
package process_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestChildrenAndTheLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for range 2 {
		p, err := process.Start(exec.Command("sh", "-c", "echo line; sleep 60 & wait"), process.WithParent, log)
		check.Must(t, err)
		check.Must(t, p.AwaitReady(limited(t), func(context.Context) error {
			if len(p.Children()) != 1 {
				return os.ErrNotExist
			}
			return nil
		}))
		check.Must(t, p.Children()[0].Signal(syscall.SIGKILL))
		check.Must(t, p.Wait(limited(t)))
	}
	if got, _ := os.ReadFile(log); string(got) != "line\nline\n" {
		t.Errorf("the log is %q", got)
	}
	if _, err := process.Start(exec.Command("/no/such/program"), process.Detached, os.DevNull); err == nil {
		t.Error("a missing program started")
	}
}

// TestDiesWithParent runs this test binary as another process, which starts a child, and kills it.
func TestDiesWithParent(t *testing.T) {
	report := os.Getenv("REPORT_SLEEPER")
	if report != "" {
		p := start(t, process.WithParent, "sleep", "60")
		id, err := json.Marshal(p.ID)
		check.Must(t, err)
		check.Must(t, os.WriteFile(report+".new", id, 0o600))
		check.Must(t, os.Rename(report+".new", report)) // all of it or nothing
		_ = p.Wait(t.Context())
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a child with its parent")
	}
	report = filepath.Join(t.TempDir(), "sleeper")
	command := exec.Command(os.Args[0], "-test.run=^TestDiesWithParent$")
	command.Env = append(os.Environ(), "REPORT_SLEEPER="+report)
	parent, err := process.Start(command, process.WithParent, os.DevNull)
	check.Must(t, err)
	var id process.ID
	check.Must(t, parent.AwaitReady(limited(t), func(context.Context) error {
		content, err := os.ReadFile(report)
		if err != nil {
			return err
		}
		return json.Unmarshal(content, &id)
	}))
	sleeper := process.Find(id)
	check.Must(t, parent.End(limited(t), syscall.SIGKILL))
	if err := sleeper.Wait(limited(t)); err != nil {
		t.Errorf("the child outlived its killed parent: %v", err)
	}
}

func start(t *testing.T, lifetime process.Lifetime, name string, args ...string) *process.Process {
	t.Helper()
	p, err := process.Start(exec.Command(name, args...), lifetime, filepath.Join(t.TempDir(), "log"))
	check.Must(t, err)
	t.Cleanup(func() { _ = p.Signal(syscall.SIGKILL) })
	return p
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
