package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// stack is the system on this machine, as far as it was started from one checkout.
type stack struct {
	root  string
	out   io.Writer // for programs: what was asked for
	log   io.Writer // for people: progress
	state state
	lock  *os.File // held open, and so locked

	orderDB, notificationDB string // flags of show
}

// open reads the state. A command that will change it keeps others out until this
// program ends, when the kernel opens the lock.
func (s *stack) open(root string, exclusive bool) (err error) {
	s.root = root
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return errors.New("there is no go.mod here: run it in the repository's root")
	}
	if err := os.MkdirAll(s.file(""), 0o755); err != nil {
		return err
	}
	if exclusive {
		if err := s.takeLock(); err != nil {
			return err
		}
	}
	s.state, err = readState(s.file("state.json"))
	return err
}

func (s *stack) takeLock() (err error) {
	if s.lock, err = os.OpenFile(s.file("lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return errors.New("another stack command is at work here: run it again when that has ended")
	}
	return nil
}

// file returns the path of what the stack keeps on disk.
func (s *stack) file(name string) string { return filepath.Join(s.root, ".stack", name) }

func (s *stack) save() error {
	if err := s.state.write(s.file("state.json")); err != nil {
		return fmt.Errorf("remember what was started: %w", err)
	}
	return nil
}

func (s *stack) say(format string, args ...any) {
	fmt.Fprintf(s.log, format+"\n", args...)
}
