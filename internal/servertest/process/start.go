package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Start runs cmd with the given lifetime. What it prints is appended to the file log.
func Start(cmd *exec.Cmd, lifetime Lifetime, log string) (*Process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	defer func() { _ = output.Close() }() // the program has its own descriptor
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = attributes(cmd.SysProcAttr, lifetime)
	return fork(cmd)
}

func fork(cmd *exec.Cmd) (*Process, error) {
	reaped, started := make(chan struct{}), make(chan error)
	p := &Process{reaped: reaped}
	go func() {
		// Linux kills a WithParent child when the thread that forked it ends, not the program.
		// So this thread is kept, and waits for the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			// Read before Wait: until then the pid cannot be another's, even if the program is already gone.
			p.ID = lookUp(cmd.Process.Pid).ID
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log, and in its state
			p.state = cmd.ProcessState
			close(reaped)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// LastLines returns the end of a log, to be shown when its program has failed.
func LastLines(log string) string {
	const shown = 30
	content, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-shown):], "\n")
}
