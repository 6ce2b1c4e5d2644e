// Package settingstest holds the settings of a service against what every service
// promises of them. Its tests set variables of the environment, so none is parallel.
package settingstest

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/settings"
)

// Service is the settings of one. They all have DATABASE_URL and AMQP_URL.
type Service[C any] struct {
	Check     func(C) []error
	Own       map[string]string // what has no default, with passwords of one's own, "…secret"
	Published map[string]string // the same with the passwords of this repository
	Wrong     []string          // NAME=value, each alone enough to stop the start
	Database  func(C) string    // DATABASE_URL, as it was read
}

// Parse reads the settings from these variables, and those without a default.
func (s Service[C]) Parse(t *testing.T, variables map[string]string) (C, error) {
	t.Helper()
	var none C
	for _, attribute := range settings.Attributes(none) {
		name := attribute.(slog.Attr).Key
		for _, name := range []string{name, name + "_FILE"} {
			t.Setenv(name, "") // so that it comes back
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, given := range []map[string]string{s.Own, variables} {
		for name, value := range given {
			t.Setenv(name, value)
		}
	}
	return settings.Parse(s.Check)
}

// Test runs what holds for every service.
func (s Service[C]) Test(t *testing.T) {
	for _, wrong := range s.Wrong {
		t.Run(wrong+" stops the start", func(t *testing.T) {
			name, value, _ := strings.Cut(wrong, "=")
			s.stopsTheStart(t, name, value)
		})
	}
	t.Run("all that is wrong is reported together", s.reportsAll)
	t.Run("published passwords are for the demo only", s.takesPublishedPasswordsInTheDemoOnly)
	t.Run("DATABASE_URL may stand in a file", s.readsAFile)
	t.Run("the log holds every setting and no password", s.logsNoPassword)
}

// faults are the lines of an error, each by the variable that it begins with.
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

func (s Service[C]) stopsTheStart(t *testing.T, name, value string) {
	_, err := s.Parse(t, map[string]string{name: value})
	if got := faults(err); len(got) != 1 || !got[name] {
		t.Fatalf("want one error, of %s, but got:\n%v", name, err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("a password is in the error: %v", err)
	}
}

func (s Service[C]) reportsAll(t *testing.T) {
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

func (s Service[C]) takesPublishedPasswordsInTheDemoOnly(t *testing.T) {
	_, err := s.Parse(t, s.Published)
	if want := map[string]bool{"DATABASE_URL": true, "AMQP_URL": true}; !maps.Equal(faults(err), want) {
		t.Errorf("want errors of %v, but got:\n%v", want, err)
	}
	inDemo := maps.Clone(s.Published)
	inDemo["APP_ENV"] = "demo"
	if _, err := s.Parse(t, inDemo); err != nil {
		t.Errorf("the demo refuses its own passwords: %v", err)
	}
}

func (s Service[C]) readsAFile(t *testing.T) {
	const url = "postgres://from:a-file@db/"
	file := filepath.Join(t.TempDir(), "database_url")
	if err := os.WriteFile(file, []byte(url+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := s.Parse(t, map[string]string{"DATABASE_URL_FILE": file})
	if got := s.Database(c); err != nil || got != url {
		t.Errorf("got %q with error %v", got, err)
	}
}

func (s Service[C]) logsNoPassword(t *testing.T) {
	c, err := s.Parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("starting", settings.Attributes(c)...)
	if strings.Contains(log.String(), "secret") {
		t.Errorf("a password is in the log: %s", log.String())
	}
	for _, wrong := range s.Wrong {
		if name, _, _ := strings.Cut(wrong, "="); !strings.Contains(log.String(), `"`+name+`":`) {
			t.Errorf("%s is not in the log: %s", name, log.String())
		}
	}
}
