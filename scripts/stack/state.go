package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"example.com/transactional-outbox/internal/servertest/process"
)

// state is what a later command must know of an earlier one.
type state struct {
	Services  map[string]process.ID `json:"services"`        // by name: what `up` has started
	Databases map[string]string     `json:"databases"`       // URLs, by the name of their service
	Private   map[string]string     `json:"private_servers"` // folders, by the name of the server
	Found     map[string]string     `json:"found_servers"`   // addresses, by the name of the server
	Servers   map[string]string     `json:"servers"`         // URLs that `up` has used, by the name of the server
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

// readState returns an empty state when there is no file.
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
		return s, fmt.Errorf("%s: %w; end what it names and remove it", file, err)
	}
	return s, nil
}

// write replaces the file in one step, so that a broken-off write loses no process.
// The file may hold passwords, which are in the URLs.
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
