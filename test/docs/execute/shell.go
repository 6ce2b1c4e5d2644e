package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// shell is a bash that runs commands one after the other, as in a terminal: variables and the
// working folder stay, and standard output and standard error go to the same place.
type shell struct {
	process *exec.Cmd
	input   io.WriteCloser
	printed *os.File
	reader  *bufio.Reader
	end     string // random marker for the end of a command's output
}

func open() (*shell, error) {
	printed, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer output.Close() // bash has its own descriptor
	process := exec.Command("bash", "--noprofile", "--norc")
	process.Stdout, process.Stderr = output, output
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // background processes end with the shell
	input, err := process.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, printed.Close())
	}
	if err := process.Start(); err != nil {
		return nil, errors.Join(err, printed.Close())
	}
	return &shell{process, input, printed, bufio.NewReader(printed), "end-" + rand.Text()}, nil
}

// run returns the output of a command until its end, or until ctx ends.
func (s *shell) run(ctx context.Context, command string) (printed string, status int, err error) {
	stop := context.AfterFunc(ctx, func() { _ = s.printed.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	// With eval, an open quote in the command does not include the text after it.
	if _, err := fmt.Fprintf(s.input, "eval %s </dev/null; printf '\\n%%s %%d\\n' %s $?\n", quote(command), s.end); err != nil {
		return "", 0, err
	}
	var all strings.Builder
	for {
		line, err := s.reader.ReadString('\n')
		if number, is := strings.CutPrefix(line, s.end+" "); is {
			status, err := strconv.Atoi(strings.TrimSpace(number))
			return all.String(), status, err
		}
		all.WriteString(line)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return all.String(), 0, context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return all.String(), 0, errors.New("the command ended the shell")
		case err != nil:
			return all.String(), 0, err
		}
	}
}

func quote(command string) string {
	return "'" + strings.ReplaceAll(command, "'", `'\''`) + "'"
}

// shutdownTimeout is how long background processes may take to end.
const shutdownTimeout = 5 * time.Second

// close ends the shell and its background processes. Processes in their own session, as the
// system's, go on.
func (s *shell) close() {
	_ = s.input.Close()
	s.signal(syscall.SIGTERM)
	_ = s.printed.SetReadDeadline(time.Now().Add(shutdownTimeout))
	_, _ = io.Copy(io.Discard, s.printed) // until all have ended
	s.signal(syscall.SIGKILL)
	_ = s.process.Wait() // a signal has ended it
	_ = s.printed.Close()
}

func (s *shell) signal(signal syscall.Signal) { _ = syscall.Kill(-s.process.Process.Pid, signal) }
