// Package clitest helps to test the operators' commands. It reads their log and their output.
package clitest

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
)

// Log stores the log of all tests of a package. Each test looks for its own ids in it.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write stores a line.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// With returns the lines that contain a text.
func (l *Log) With(text string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// IDs returns the ids of the objects that --json printed, in the same order.
func IDs[T any](tb testing.TB, out string) (ids []T) {
	tb.Helper()
	for line := range strings.Lines(out) {
		var object struct {
			ID T `json:"id"`
		}
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			tb.Fatalf("%q is no JSON: %v", line, err)
		}
		ids = append(ids, object.ID)
	}
	return ids
}
