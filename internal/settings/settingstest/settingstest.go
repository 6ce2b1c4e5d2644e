// Package settingstest tests the settings of a service for the rules of all services. Its tests
// set environment variables, so no test is parallel.
package settingstest

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/test/env/check"
)

// Service describes the settings of one service. All have DATABASE_URL and AMQP_URL.
type Service[C any] struct {
	Check func(C) []error
	Own   map[string]string // the settings without a default; the passwords contain "secret"
	Wrong []string          // NAME=value: each of them stops the start
}

// Parse reads the settings from Own and from these variables.
func (s Service[C]) Parse(t *testing.T, variables map[string]string) (C, error) {
	t.Helper()
	s.set(t, variables)
	return settings.Parse(s.Check)
}

// set sets Own and these variables, and unsets all others of the service.
func (s Service[C]) set(t *testing.T, variables map[string]string) {
	t.Helper()
	var none C
	for _, attribute := range settings.Attributes(none) {
		name := attribute.(slog.Attr).Key
		for _, name := range []string{name, name + "_FILE"} {
			t.Setenv(name, "") // so that the variable is restored after the test
			check.Must(t, os.Unsetenv(name))
		}
	}
	for _, given := range []map[string]string{s.Own, variables} {
		for name, value := range given {
			t.Setenv(name, value)
		}
	}
}

// Test runs the tests that are the same for every service.
func (s Service[C]) Test(t *testing.T) {
	for _, wrong := range s.Wrong {
		t.Run(wrong+" stops the start", func(t *testing.T) {
			name, value, _ := strings.Cut(wrong, "=")
			s.testWrong(t, name, value)
		})
	}
	t.Run("all errors are reported together", s.testAllErrors)
}

// TestBroker runs each command without AMQP_URL. The error of those that connect to the broker
// names it. Their time is over when they start, so the others end at once, with whatever error.
func (s Service[C]) TestBroker(t *testing.T, commands []command.Command, connects map[string][]string) {
	for _, c := range commands {
		t.Run(c.Name, func(t *testing.T) {
			logger := slog.Default()
			t.Cleanup(func() { slog.SetDefault(logger) })
			s.set(t, map[string]string{"DATABASE_URL": "postgres://somebody:secret@127.0.0.1:1/", "AMQP_URL": "", "HTTP_ADDR": "127.0.0.1:0", "OPS_ADDR": "127.0.0.1:0"})
			over, end := context.WithCancel(t.Context())
			end()
			args, want := connects[c.Name]
			err := c.Run(over, args)
			if got := err != nil && strings.Contains(err.Error(), "AMQP_URL is not set"); got != want {
				t.Errorf("error %v; it names AMQP_URL: %t, want %t", err, got, want)
			}
		})
	}
}

// faults returns the variables with which the lines of an error begin.
func faults(err error) map[string]bool {
	names := map[string]bool{}
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			name, _, _ := strings.Cut(line, " ")
			names[strings.TrimSuffix(name, ":")] = true
		}
	}
	return names
}

func (s Service[C]) testWrong(t *testing.T, name, value string) {
	_, err := s.Parse(t, map[string]string{name: value})
	if got := faults(err); len(got) != 1 || !got[name] {
		t.Fatalf("want one error, of %s, but got:\n%v", name, err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("a password is in the error: %v", err)
	}
}

func (s Service[C]) testAllErrors(t *testing.T) {
	variables, want := map[string]string{}, map[string]bool{}
	for _, wrong := range s.Wrong {
		if name, value, _ := strings.Cut(wrong, "="); !want[name] {
			variables[name], want[name] = value, true
		}
	}
	_, err := s.Parse(t, variables)
	if got := faults(err); !maps.Equal(got, want) {
		t.Errorf("want errors of %v, but got:\n%v", want, err)
	}
}
