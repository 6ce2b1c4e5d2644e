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

// shell is a bash that runs one command after the other, as a terminal does: variables
// and the folder stay, and what is printed goes to one place, errors too.
type shell struct {
	process *exec.Cmd
	input   io.WriteCloser
	printed *os.File
	reader  *bufio.Reader
	end     string // what nobody else prints
}

func open() (*shell, error) {
	printed, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer output.Close() // bash has its own
	process := exec.Command("bash", "--noprofile", "--norc")
	process.Stdout, process.Stderr = output, output
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what a command leaves behind ends with the shell
	input, err := process.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, printed.Close())
	}
	if err := process.Start(); err != nil {
		return nil, errors.Join(err, printed.Close())
	}
	return &shell{process, input, printed, bufio.NewReader(printed), "end-" + rand.Text()}, nil
}

// run returns what a command has printed until it ended, or until ctx did.
func (s *shell) run(ctx context.Context, command string) (printed string, status int, err error) {
	stop := context.AfterFunc(ctx, func() { _ = s.printed.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	// eval keeps an open quote from swallowing what follows.
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
			return all.String(), 0, errors.New("it ended the shell")
		case err != nil:
			return all.String(), 0, err
		}
	}
}

func quote(command string) string {
	return "'" + strings.ReplaceAll(command, "'", `'\''`) + "'"
}

// graceful is how long what still runs may take to end.
const graceful = 5 * time.Second

// close ends the shell and what its commands have left in the background. What has a
// session of its own, as the system's processes have, goes on.
func (s *shell) close() {
	_ = s.input.Close()
	s.signal(syscall.SIGTERM)
	_ = s.printed.SetReadDeadline(time.Now().Add(graceful))
	_, _ = io.Copy(io.Discard, s.printed) // until all of them are gone
	s.signal(syscall.SIGKILL)
	_ = s.process.Wait() // a signal has ended it
	_ = s.printed.Close()
}

func (s *shell) signal(signal syscall.Signal) { _ = syscall.Kill(-s.process.Process.Pid, signal) }
