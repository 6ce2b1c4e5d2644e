package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestServersAreFoundUnlessPrivateOnesAreWanted(t *testing.T) {
	for _, k := range kinds {
		s := newStack(t)
		t.Setenv(privateOnly, "")
		t.Setenv(k.variable, os.Getenv(k.testVariable))
		if address := s.find(t.Context(), k); address == "" {
			t.Errorf("%s was not found", k.name)
		}
		t.Setenv(privateOnly, "1")
		if address := s.find(t.Context(), k); address != "" {
			t.Errorf("%s: another's server was taken, %s", k.name, address)
		}
	}
}

func TestWhatCannotBeUsedIsNotFound(t *testing.T) {
	t.Setenv(privateOnly, "")
	for address, k := range map[string]kind{
		"postgres://postgres@127.0.0.1:1/postgres": postgreSQL,
		"host=localhost user=postgres":             postgreSQL,
		"amqp://guest:guest@127.0.0.1:1/":          rabbitMQ,
		"http://127.0.0.1:15672/":                  rabbitMQ,
	} {
		s := newStack(t)
		t.Setenv(k.variable, address)
		if found := s.find(t.Context(), k); found != "" {
			t.Errorf("%s was accepted as %s", address, k.name)
		}
	}
}

func TestNoPackageIsInstalledIfThatIsForbidden(t *testing.T) {
	called := filepath.Join(t.TempDir(), "called")
	tools := t.TempDir()
	must(t, os.WriteFile(filepath.Join(tools, "apt-get"), []byte("#!/bin/sh\necho \"$@\" >>"+called+"\n"), 0o700))
	t.Setenv("PATH", tools)
	t.Setenv(noInstall, "1")
	t.Setenv(privateOnly, "")
	for _, k := range kinds {
		t.Setenv(k.variable, os.Getenv(k.testVariable))
	}
	if _, err := newStack(t).provide(t.Context(), "gcc", "x"); err == nil || !strings.Contains(err.Error(), "install gcc x.") {
		t.Errorf("error %v, want one that names the packages", err)
	}
	if commands, err := os.ReadFile(called); err == nil {
		t.Errorf("apt-get was called: %s", commands)
	}
}

func TestAPersonAtATerminalIsAsked(t *testing.T) {
	for _, test := range []struct {
		no, yes  string
		terminal io.Reader
		want     bool
	}{
		{"1", "1", strings.NewReader("y\n"), false},
		{"", "1", strings.NewReader("n\n"), true},
		{"", "", nil, true}, // nobody can answer
		{"", "", strings.NewReader("y\n"), true},
		{"", "", strings.NewReader("Yes\n"), true},
		{"", "", strings.NewReader("no\n"), false},
		{"", "", strings.NewReader(""), false}, // Ctrl-D
	} {
		t.Setenv(noInstall, test.no)
		t.Setenv(yesInstall, test.yes)
		if got := newStack(t).agreed(t.Context(), "postgresql", test.terminal); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestPrintedAddressesSurviveTheShellAndProgressHidesPasswords(t *testing.T) {
	for _, address := range []string{"amqp://h/%2F", "postgres://u:it's $HOME `x` \"\\@h/d?a=b&c=d"} {
		out, err := exec.Command("sh", "-c", "export A="+shellQuoted(address)+`; printf %s "$A"`).Output()
		must(t, err)
		if string(out) != address {
			t.Errorf("the shell changed %[2]q to %[1]q", out, address)
		}
	}
	for _, address := range []string{"amqp://guest:secret@h/", "amqp://guest:secret@h:port/", "%"} {
		if shown := redacted(address); strings.Contains(shown, "secret") {
			t.Errorf("%s is shown as %s", address, shown)
		}
	}
}
