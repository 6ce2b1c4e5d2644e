package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const nobodyListens = "127.0.0.1:1"

func TestProbesOfWhatIsNotThere(t *testing.T) {
	for address, k := range map[string]kind{
		"postgres://postgres@" + nobodyListens + "/postgres": postgreSQL,
		"host=localhost user=postgres":                       postgreSQL,
		"amqp://guest:guest@" + nobodyListens + "/":          rabbitMQ,
		"http://127.0.0.1:15672/":                            rabbitMQ,
	} {
		if _, err := k.probe(soon(t), address); err == nil {
			t.Errorf("%s passed for %s", address, k.name)
		}
	}
}

func TestFoundServerIsRemembered(t *testing.T) {
	s := newStack(t)
	for _, k := range kinds {
		t.Setenv(k.variable, os.Getenv(k.testVariable))
		address := s.find(soon(t), k)
		if address == "" {
			t.Errorf("there is no %s; run `make test`, which starts what is missing", k.name)
		}
		if s.state.Found[k.name] != redacted(address) {
			t.Errorf("down will not know of %s: %v", k.name, s.state.Found)
		}
	}
}

func TestUnreachableServerIsNotFound(t *testing.T) {
	s := newStack(t)
	t.Setenv("AMQP_URL", "amqp://"+nobodyListens+"/")
	if address := s.find(soon(t), rabbitMQ); address != "" || len(s.state.Found) > 0 {
		t.Errorf("found %q", address)
	}
}

func TestPrintedAddressesSurviveTheShell(t *testing.T) {
	for _, address := range []string{"amqp://h/%2F", "postgres://u:it's $HOME `x` \"\\@h/d?a=b&c=d"} {
		out, err := exec.Command("sh", "-c", "export A="+shellQuoted(address)+`; printf %s "$A"`).Output()
		must(t, err)
		if string(out) != address {
			t.Errorf("the shell made %q of %q", out, address)
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
