package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"example.com/transactional-outbox/test/env/process"
)

// stack is the part of the system that was started from one checkout.
type stack struct {
	root  string
	out   io.Writer // the command's result, also for other programs
	log   io.Writer // progress messages
	state state
	lock  *os.File // locked while it is open

	postgresSettings []string // of a private PostgreSQL that it starts
}

// state is what later commands need to know. Its maps are by the name of a service or a server.
type state struct {
	Services  map[string]process.ID `json:"services"`        // started by `up`
	Databases map[string]string     `json:"databases"`       // URLs of the services' databases
	Private   map[string]string     `json:"private_servers"` // folders of servers that stack has started
	Servers   map[string]string     `json:"servers"`         // URLs that `up` used
}

func newState() state {
	return state{
		Services:  map[string]process.ID{},
		Databases: map[string]string{},
		Private:   map[string]string{},
		Servers:   map[string]string{},
	}
}

// open reads the state. An exclusive command takes a lock, which the kernel releases when the
// program ends.
func (s *stack) open(exclusive bool) error {
	if _, err := os.Stat(filepath.Join(s.root, "scripts", "stack")); err != nil {
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
	s.state = newState()
	content, err := os.ReadFile(s.path("state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, &s.state); err != nil {
		return fmt.Errorf("%s: %w; stop the processes that it lists, and remove it", s.path("state.json"), err)
	}
	return nil
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

// save replaces the file of the state in one step, so that an interrupted write loses nothing. The
// URLs in it may contain passwords.
func (s *stack) save() error {
	content, err := json.MarshalIndent(s.state, "", "  ")
	if err != nil {
		return err
	}
	file := s.path("state.json")
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	return os.Rename(file+".new", file)
}

// path returns the path of a file in .stack.
func (s *stack) path(name string) string { return filepath.Join(s.root, ".stack", name) }

func (s *stack) logf(format string, args ...any) {
	fmt.Fprintf(s.log, format+"\n", args...)
}
