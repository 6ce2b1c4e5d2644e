package services

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"example.com/transactional-outbox/test/env/process"
)

// Messages of the services' logs that tests wait for.
const (
	TakingOrders       = "taking orders"                           // order-service, api
	TakingMessages     = "taking messages"                         // notification-service
	AnsweringOperators = "answering operators"                     // both
	ConnectedToBroker  = "connected to the broker"                 // both
	Listening          = "listening for events of other processes" // relay
	MessagePublished   = "message published"                       // relay, also of an e-mail
	EmailLogged        = "e-mail written to the log only"          // notification-service
)

// Line is a line of a log. A line that is not JSON has only a msg.
type Line map[string]any

// Message returns the msg.
func (l Line) Message() string { return l.Text("msg") }

// Text returns a field, or "" if it is none or no text.
func (l Line) Text(field string) string { text, _ := l[field].(string); return text }

// Time returns when the line was written.
func (l Line) Time() time.Time {
	at, _ := time.Parse(time.RFC3339Nano, l.Text("time"))
	return at
}

// Lines returns the lines of the log so far.
func (s *Process) Lines() ([]Line, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := os.Open(s.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	content, err := io.ReadAll(io.NewSectionReader(log, s.read, 1<<40))
	if err != nil {
		return nil, err
	}
	complete := content[:bytes.LastIndexByte(content, '\n')+1]
	s.read += int64(len(complete))
	for line := range bytes.Lines(complete) {
		var l Line
		if json.Unmarshal(line, &l) != nil {
			l = Line{"msg": string(bytes.TrimSpace(line))}
		}
		s.lines = append(s.lines, l)
	}
	return slices.Clip(s.lines), nil
}

// Find returns the first line with this message at or after a time.
func (s *Process) Find(message string, since time.Time) (Line, error) {
	lines, err := s.Lines()
	for _, l := range lines {
		if l.Message() == message && !l.Time().Before(since) {
			return l, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("%s has not logged %q", s.name, message)
	}
	return nil, err
}

// Await waits for the first line with this message.
func (s *Process) Await(ctx context.Context, message string) (l Line, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = s.AwaitReady(ctx, func(context.Context) error {
		l, err = s.Find(message, time.Time{})
		return err
	})
	if err != nil {
		return l, fmt.Errorf("%s: %w; its log:\n%s", s.name, err, process.LastLines(s.log))
	}
	return l, nil
}

// Address waits until a listener has logged its address with this message, and returns it as a URL.
func (s *Process) Address(ctx context.Context, message string) (url string, err error) {
	l, err := s.Await(ctx, message)
	return "http://" + l.Text("address"), err
}
