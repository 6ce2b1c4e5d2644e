package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// stack is the part of the system that was started from one checkout.
type stack struct {
	root  string
	out   io.Writer // the command's result, also for other programs
	log   io.Writer // progress messages
	state state
	lock  *os.File // locked while it is open

	orderDB, notificationDB string // flags of show
}

// open reads the state. An exclusive command takes a lock, which the kernel releases when the
// program ends.
func (s *stack) open(root string, exclusive bool) (err error) {
	s.root = root
	if _, err := os.Stat(filepath.Join(root, "scripts", "stack")); err != nil {
		return errors.New("there is no scripts/stack here: run it in the repository's root")
	}
	if err := os.MkdirAll(s.path(""), 0o755); err != nil {
		return err
	}
	if exclusive {
		if err := s.takeLock(); err != nil {
			return err
		}
	}
	s.state, err = readState(s.path("state.json"))
	return err
}

func (s *stack) takeLock() (err error) {
	if s.lock, err = os.OpenFile(s.path("lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return errors.New("another stack command is running here: wait for its end")
	}
	return nil
}

// path returns the path of a file in .stack.
func (s *stack) path(name string) string { return filepath.Join(s.root, ".stack", name) }

func (s *stack) save() error {
	if err := s.state.write(s.path("state.json")); err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	return nil
}

func (s *stack) logf(format string, args ...any) {
	fmt.Fprintf(s.log, format+"\n", args...)
}
