package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"example.com/transactional-outbox/test/servers/process"
)

// state is what later commands need to know.
type state struct {
	Services  map[string]process.ID `json:"services"`        // started by `up`, by name
	Databases map[string]string     `json:"databases"`       // URLs, by service
	Private   map[string]string     `json:"private_servers"` // folders, by server
	Found     map[string]string     `json:"found_servers"`   // addresses, by server
	Servers   map[string]string     `json:"servers"`         // URLs that `up` used, by server
}

func newState() state {
	return state{
		Services:  map[string]process.ID{},
		Databases: map[string]string{},
		Private:   map[string]string{},
		Found:     map[string]string{},
		Servers:   map[string]string{},
	}
}

// readState returns an empty state if there is no file.
func readState(file string) (state, error) {
	s := newState()
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return s, fmt.Errorf("%s: %w; stop the processes that it lists, and remove it", file, err)
	}
	return s, nil
}

// write replaces the file in one step, so that an interrupted write loses nothing. The URLs in the
// path may contain passwords.
func (s state) write(file string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
