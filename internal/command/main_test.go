package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// programEnv is a variable that turns this test binary into a program with the commands below.
// Main handles signals and exits, so it needs a process of its own.
const programEnv = "COMMAND_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if slices.Contains(os.Args, "hang-for-long") {
		maxDrain = 10 * time.Millisecond
	}
	printLine := func(line string) { _, _ = fmt.Println(line) }
	hang := func(ctx context.Context, _ []string) error {
		printLine("serving")
		<-ctx.Done()
		printLine("draining")
		select {}
	}
	Main("shop",
		Command{Name: "serve", Run: func(ctx context.Context, _ []string) error {
			printLine("serving")
			<-ctx.Done()
			printLine("drained")
			return nil
		}},
		Command{Name: "hang", Run: hang},
		Command{Name: "hang-for-long", Run: hang},
		Command{Name: "fail", Run: func(context.Context, []string) error { return errors.New("no stock") }},
		Command{Name: "leave", Run: func(context.Context, []string) error { return fmt.Errorf("sold: %w", leftError{}) }},
	)
}

type leftError struct{}

func (leftError) Error() string { return "some are left" }

func (leftError) ExitStatus() int { return 2 }

type program struct {
	*exec.Cmd
	lines  *bufio.Scanner
	errors bytes.Buffer
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(os.Args[0], args...)}
	p.Env = append(os.Environ(), programEnv+"=1")
	p.Stderr = &p.errors
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

func (p *program) wantLine(t *testing.T, want string) {
	t.Helper()
	if !p.lines.Scan() || p.lines.Text() != want {
		t.Fatalf("the program prints %q, want %q", p.lines.Text(), want)
	}
}

func (p *program) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

func TestASignalEndsTheContextOfTheCommand(t *testing.T) {
	t.Parallel()
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := start(t)
		p.wantLine(t, "serving")
		p.signal(t, s)
		p.wantLine(t, "drained")
		if err := p.Wait(); err != nil {
			t.Errorf("after %v: %v", s, err)
		}
	}
}

func TestASecondSignalEndsTheProcessAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, "hang")
	p.wantLine(t, "serving")
	p.signal(t, syscall.SIGTERM)
	p.wantLine(t, "draining")

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Wait()
	}()
	// The signal is repeated: the command may see the first signal a moment before the process is
	// ready for the second.
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-ended:
			status, _ := p.ProcessState.Sys().(syscall.WaitStatus)
			if !status.Signaled() || status.Signal() != syscall.SIGTERM {
				t.Errorf("the process ended by %v, want SIGTERM", p.ProcessState)
			}
			return
		case <-again.C:
			p.signal(t, syscall.SIGTERM)
		}
	}
}

func TestP12ADrainHasALimit(t *testing.T) {
	t.Parallel()
	p := start(t, "hang-for-long")
	p.wantLine(t, "serving")
	p.signal(t, syscall.SIGTERM)
	if _ = p.Wait(); p.ProcessState.ExitCode() != 1 || !strings.Contains(p.errors.String(), "the drain took too long") {
		t.Errorf("%v: %s", p.ProcessState, p.errors.String())
	}
}

func TestAnErrorIsWrittenAndHasItsStatus(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		status int
		text   string
	}{
		"fail":  {1, "shop: no stock\n"},
		"srve":  {1, "shop: there is no command \"srve\""},
		"leave": {2, "shop: sold: some are left\n"},
	} {
		p := start(t, name)
		_ = p.Wait()
		if p.ProcessState.ExitCode() != want.status || !strings.HasPrefix(p.errors.String(), want.text) {
			t.Errorf("%s: status %d, %q; want %+v", name, p.ProcessState.ExitCode(), p.errors.String(), want)
		}
	}
}
