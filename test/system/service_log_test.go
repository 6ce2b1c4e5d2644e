package system

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// logLine is one line of a service's log.
type logLine map[string]any

// readLog collects the log until the process ends.
func (s *service) readLog(output io.Reader) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var l logLine
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			l = logLine{"msg": lines.Text()}
		}
		s.mu.Lock()
		s.log = append(s.log, l)
		s.mu.Unlock()
		s.logChanged.Broadcast()
	}
	_ = s.command.Wait()
	s.mu.Lock()
	s.logEnded = true
	s.mu.Unlock()
	s.logChanged.Broadcast()
	close(s.ended)
}

// awaitLog waits for a line with this message, and returns the first one.
func (s *service) awaitLog(message string) logLine {
	s.Helper()
	return s.awaitLogAfter(0, message)
}

// awaitLogAfter does the same, but skips a number of lines at the beginning.
func (s *service) awaitLogAfter(lines int, message string) logLine {
	s.Helper()
	timer := time.AfterFunc(awaitTimeout, s.logChanged.Broadcast)
	defer timer.Stop()
	deadline := time.Now().Add(awaitTimeout)
	s.mu.Lock()
	defer s.mu.Unlock()
	for read := lines; ; {
		for ; read < len(s.log); read++ {
			if s.log[read]["msg"] == message {
				return s.log[read]
			}
		}
		if s.logEnded || time.Now().After(deadline) {
			s.Fatalf("%s never logged %q", s.name, message)
		}
		s.logChanged.Wait()
	}
}

// logLength returns the number of lines so far, for awaitLogAfter.
func (s *service) logLength() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.log)
}

// logLines returns all lines so far with this message.
func (s *service) logLines(message string) (found []logLine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.log {
		if l["msg"] == message {
			found = append(found, l)
		}
	}
	return found
}

func (s *service) lastLogLines(lines int) (text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.log[max(0, len(s.log)-lines):] {
		line, _ := json.Marshal(l)
		text += string(line) + "\n"
	}
	return text
}

// wantNoMissingRight wants no error of PostgreSQL or RabbitMQ about a missing right in the
// log. The services only log some of these errors, and try again.
func (s *service) wantNoMissingRight() {
	if s.mayLackRights {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.log {
		if text := fmt.Sprint(l); strings.Contains(text, "SQLSTATE 42501") || strings.Contains(text, "ACCESS_REFUSED") {
			s.Errorf("%s lacks a right that it needs: %s", s.name, text)
			return
		}
	}
}
