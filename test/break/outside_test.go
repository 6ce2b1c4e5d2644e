package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func TestMailpitCountsEmails(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/messages" {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, `{"total": 3, "messages": [{"ID": "x", "MessageID": "1@example.com", "Subject": "Your order"},
			{"MessageID": "2@example.com"}, {"MessageID": "1@example.com"}]}`)
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	got, err := mailpit{url: server.URL}.emails(t.Context())
	must(t, err)
	if want := map[string]int{"1": 2, "2": 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if _, err := (mailpit{url: server.URL + "/elsewhere"}).emails(t.Context()); err == nil {
		t.Error("another page was accepted")
	}
}

func TestTheLogIsReadFromTheStartOfTheRun(t *testing.T) {
	const earlier = `{"msg":"e-mail written to the log only","message_id":"0"}` + "\n"
	const log = earlier + `not JSON
{"msg":"e-mail written to the log only","message_id":"1"}
{"msg":"e-mail","message_id":"1","text":"at debug level"}
{"msg":"Order email sent to customer","message_id":"1"}
{"msg":"e-mail written to the log only","message_id":"1"}
`
	file := filepath.Join(t.TempDir(), "log")
	must(t, os.WriteFile(file, []byte(log), 0o600))
	got, err := logged{file: file, from: int64(len(earlier))}.emails(t.Context())
	must(t, err)
	if want := map[string]int{"1": 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestAnotherMailServerIsAnError(t *testing.T) {
	t.Setenv("SMTP_URL", "smtp://mail")
	if _, err := openMailbox("processes"); err == nil || !strings.Contains(err.Error(), "SMTP_URL") {
		t.Errorf("with SMTP_URL: %v", err)
	}
}

func TestValueOfAMetric(t *testing.T) {
	const page = "# HELP outbox_backlog Events.\noutbox_backlog_more 9\noutbox_backlog 1.2e+01\noutbox_events{status=\"pending\"} 3\n"
	got, err := valueOf("outbox_backlog", page)
	if err != nil || got != 12 {
		t.Errorf("read %d, error %v, want 12", got, err)
	}
	if _, err := valueOf("outbox", page); err == nil {
		t.Error("a metric that is not there was read")
	}
}

func TestAFailedCommandReturnsItsErrorOutput(t *testing.T) {
	sh := []string{"sh", "-c"}
	if printed, err := command(t.Context(), sh, "echo done; echo aside >&2"); err != nil || printed != "done\n" {
		t.Errorf("printed %q, error %v", printed, err)
	}
	if _, err := command(t.Context(), sh, "echo no such service >&2; exit 1"); err == nil || errors.Is(err, errNotTried) ||
		!strings.Contains(err.Error(), "no such service") {
		t.Errorf("a failure gave %v", err)
	}
	if _, err := command(t.Context(), sh, "echo others use it >&2; exit 2"); !errors.Is(err, errNotTried) ||
		!strings.Contains(err.Error(), "others use it") {
		t.Errorf("a refusal gave %v", err)
	}
}

// TestCommandsDoNotGetCtrlC: it reaches the whole process group of the terminal.
func TestCommandsDoNotGetCtrlC(t *testing.T) {
	group, err := command(t.Context(), []string{"sh", "-c", "ps -o pgid= -p $$"})
	must(t, err)
	if strings.TrimSpace(group) == fmt.Sprint(syscall.Getpgrp()) {
		t.Error("Ctrl-C would end the commands that repair the system")
	}
}

func TestSeveralReplicasAreRefused(t *testing.T) {
	for replicas, want := range map[string]error{"a": nil, "a\nb": errNotTried} {
		m := machine{list: []string{"sh", "-c", "printf '" + replicas + "'"}}
		if err := m.requireOne(t.Context(), orderService); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", replicas, err, want)
		}
	}
	must(t, machines["processes"].requireOne(t.Context(), orderService))
}
