package process_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/test/servers/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStartedProcessIsFoundUntilItEnds(t *testing.T) {
	p := start(t, process.WithParent, "sleep", "60")
	if process.Find(p.ID) == nil {
		t.Fatal("a running process was not found by its identity")
	}
	end(t, p)
	if process.Find(p.ID) != nil {
		t.Error("an ended process was found")
	}
}

func TestRecycledPidIsAnotherProcess(t *testing.T) {
	p := start(t, process.Detached, "sleep", "60")
	earlier := process.ID{PID: p.PID, Started: "an earlier time"}
	if process.Find(earlier) != nil {
		t.Error("a process with another start time was found")
	}
	if process.Find(process.ID{}) != nil {
		t.Error("the zero identity found a process")
	}
	end(t, p)
}

func TestProgramThatEndsAtOnce(t *testing.T) {
	p := start(t, process.WithParent, "true")
	if err := p.Wait(shortContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("a signal to an ended process is an error: %v", err)
	}
}

func TestWaitForAFoundProcess(t *testing.T) {
	p := start(t, process.Detached, "sleep", "60")
	found := process.Find(p.ID)
	end(t, found)
	if p.Alive() {
		t.Error("Wait returned while the process still ran")
	}
}

func TestWaitGivesUpWithItsContext(t *testing.T) {
	p := start(t, process.WithParent, "sleep", "60")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(ctx); err == nil {
		t.Error("Wait for a running process returned no error")
	}
	end(t, p)
}

func TestChildren(t *testing.T) {
	p := start(t, process.WithParent, "sh", "-c", "sleep 60 & wait")
	eventually(t, func() bool { return len(p.Children()) == 1 })
	end(t, p.Children()[0])
	end(t, p)
}

func TestOutputIsAppendedToTheLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for range 2 {
		p, err := process.Start(exec.Command("echo", "line"), process.Detached, log)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(shortContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(log); string(got) != "line\nline\n" {
		t.Errorf("the log is %q", got)
	}
}

func TestMissingProgram(t *testing.T) {
	if _, err := process.Start(exec.Command("/no/such/program"), process.Detached, os.DevNull); err == nil {
		t.Error("a missing program started")
	}
}

// TestDiesWithParent runs this test binary as another process, which starts a child, and kills
// it.
func TestDiesWithParent(t *testing.T) {
	if os.Getenv("START_SLEEPER") != "" {
		p := start(t, process.WithParent, "sleep", "60")
		reportTo(t, os.Getenv("START_SLEEPER"), p)
		_ = p.Wait(t.Context())
		return
	}
	requireLinux(t)
	report := filepath.Join(t.TempDir(), "sleeper")
	parent := exec.Command(os.Args[0], "-test.run=^TestDiesWithParent$")
	parent.Env = append(os.Environ(), "START_SLEEPER="+report)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	sleeper := readReport(t, report)
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if err := sleeper.Wait(shortContext(t)); err != nil {
		t.Errorf("the child outlived its killed parent: %v", err)
	}
}

func shortContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}
