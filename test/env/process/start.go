package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// Start starts cmd with a lifetime, and appends its output to the file log.
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

// attributes starts a process outside our process group.
func attributes(attr *syscall.SysProcAttr, lifetime Lifetime) *syscall.SysProcAttr {
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	if lifetime == Detached {
		attr.Setsid = true
		return attr
	}
	// Ctrl-C then reaches only the test, which stops its servers in an orderly way.
	attr.Setpgid = true
	dieWithParent(attr)
	return attr
}

func fork(cmd *exec.Cmd) (*Process, error) {
	reaped, started := make(chan struct{}), make(chan error)
	p := &Process{reaped: reaped}
	go func() {
		// Linux kills a WithParent child when the thread that forked it ends. So this goroutine
		// keeps its thread while it waits for the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			// Before Wait, the pid belongs to this process, even if it has already ended.
			p.ID = lookUp(cmd.Process.Pid).ID
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log and the state show how it ended
			p.state = cmd.ProcessState
			close(reaped)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// LastLines returns the last lines of a log, for the report of a failure.
func LastLines(log string) string {
	const shown = 30
	content, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-shown):], "\n")
}
