package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const unusedAddress = "127.0.0.1:1"

func TestProbesOfMissingServersFail(t *testing.T) {
	for address, k := range map[string]kind{
		"postgres://postgres@" + unusedAddress + "/postgres": postgreSQL,
		"host=localhost user=postgres":                       postgreSQL,
		"amqp://guest:guest@" + unusedAddress + "/":          rabbitMQ,
		"http://127.0.0.1:15672/":                            rabbitMQ,
	} {
		if _, err := k.probe(shortContext(t), address); err == nil {
			t.Errorf("%s was accepted as %s", address, k.name)
		}
	}
}

func TestFoundServerIsRemembered(t *testing.T) {
	s := newStack(t)
	for _, k := range kinds {
		t.Setenv(k.variable, os.Getenv(k.testVariable))
		address := s.find(shortContext(t), k)
		if address == "" {
			t.Errorf("there is no %s; run `make test`, which starts it", k.name)
		}
		if s.state.Found[k.name] != redacted(address) {
			t.Errorf("down would not know %s: %v", k.name, s.state.Found)
		}
	}
}

func TestUnreachableServerIsNotFound(t *testing.T) {
	s := newStack(t)
	t.Setenv("AMQP_URL", "amqp://"+unusedAddress+"/")
	if address := s.find(shortContext(t), rabbitMQ); address != "" || len(s.state.Found) > 0 {
		t.Errorf("found %q", address)
	}
}

func TestNoPackageIsInstalledIfThatIsForbidden(t *testing.T) {
	called := filepath.Join(t.TempDir(), "called")
	tools := t.TempDir()
	must(t, os.WriteFile(filepath.Join(tools, "apt-get"), []byte("#!/bin/sh\necho \"$@\" >>"+called+"\n"), 0o700))
	t.Setenv("PATH", tools)
	t.Setenv(noInstall, "1")
	if err := newStack(t).install(shortContext(t), "postgresql", "x"); err == nil || !strings.Contains(err.Error(), "postgresql x") {
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
		{"", "", strings.NewReader("\n"), false},
		{"", "", strings.NewReader(""), false}, // Ctrl-D
	} {
		t.Setenv(noInstall, test.no)
		t.Setenv(yesInstall, test.yes)
		if got := newStack(t).agreed(t.Context(), "postgresql", test.terminal); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestPrintedAddressesSurviveTheShell(t *testing.T) {
	for _, address := range []string{"amqp://h/%2F", "postgres://u:it's $HOME `x` \"\\@h/d?a=b&c=d"} {
		out, err := exec.Command("sh", "-c", "export A="+shellQuoted(address)+`; printf %s "$A"`).Output()
		must(t, err)
		if string(out) != address {
			t.Errorf("the shell changed %[2]q to %[1]q", out, address)
		}
	}
}

func TestProgressHidesPasswords(t *testing.T) {
	for _, address := range []string{"amqp://guest:secret@h/", "amqp://guest:secret@h:port/", "%"} {
		if shown := redacted(address); strings.Contains(shown, "secret") {
			t.Errorf("%s is shown as %s", address, shown)
		}
	}
}

func TestDatabaseInURL(t *testing.T) {
	got, err := withDatabase("postgres://u:p@h:1/postgres?sslmode=disable", "order_service")
	must(t, err)
	if want := "postgres://u:p@h:1/order_service?sslmode=disable"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
