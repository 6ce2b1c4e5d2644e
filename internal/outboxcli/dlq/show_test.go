package dlq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestShowTellsAllOfAMessage(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.Add("malformed", 0)
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	id := b.Add("retries-exhausted", time.Hour, func(p *amqp.Publishing) {
		p.CorrelationId, p.ReplyTo, p.Priority, p.ContentEncoding, p.Timestamp = "corr", "answers", 3, "identity", at
		p.Headers["odd"] = amqp.Table{"at": at, "far": time.Unix(1<<50, 0), "list": []any{int32(7), "x\x1b[31m"}}
		p.Headers["broken"] = "\xff!"
	})
	out := b.must("show", id)
	for _, want := range []string{
		id, "failure code", "retries-exhausted", "because of retries-exhausted", "1h0m", "corr", "answers", "identity",
		"2026-05-04T03:02:01Z", "order-service", "application/json", "header traceparent", "00-aa-bb-01", `{"at":"2026-05-04T03:02:01Z","far":"`, `"list":[7,`,
		"body, 15 bytes, json\n{\"quantity\":2}\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("it colours the terminal: %q", out)
	}

	var shown struct {
		ID       string         `json:"id"`
		Headers  map[string]any `json:"headers"`
		Encoding string         `json:"body_encoding"`
		Body     map[string]int `json:"body"`
	}
	out = b.must("show", "--json", id)
	err := json.Unmarshal([]byte(out), &shown)
	if err != nil || strings.Count(out, "\n") != 1 || shown.ID != id || shown.Encoding != "json" || shown.Body["quantity"] != 2 ||
		shown.Headers["broken"] != "\ufffd!" || shown.Headers["retry-count"] != 3.0 {
		t.Errorf("as JSON %s, error %v", out, err)
	}
}

func TestShowFindsOutHowABodyIsBestShown(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	for body, want := range map[string][2]string{
		"[1,\n 2]":            {"json", `[1,2]`},
		"two\nlines \x1b[31m": {"text", `"two\nlines \u001b[31m"`},
		"\xff\x00\x01":        {"base64", `"/wAB"`},
		`{"a":1,"a":2}`:       {"text", `"{\"a\":1,\"a\":2}"`},
		"":                    {"text", `""`},
	} {
		id := b.Add("malformed", 0, func(p *amqp.Publishing) { p.Body = []byte(body) })
		var shown struct {
			Encoding string         `json:"body_encoding"`
			Body     jsontext.Value `json:"body"`
		}
		if err := json.Unmarshal([]byte(b.must("show", id, "--json")), &shown); err != nil || shown.Encoding != want[0] || string(shown.Body) != want[1] {
			t.Errorf("%q is shown as %s %s, error %v, want %v", body, shown.Encoding, shown.Body, err, want)
		}
		if out := b.must("show", id); strings.Contains(out, "\x1b") || want[0] == "base64" != strings.HasSuffix(out, "\n/wAB\n") {
			t.Errorf("%q is shown as %q", body, out)
		}
	}
}

// TestShowFindsAllOfAnID: a consumer that dies between copy and ack leaves two.
func TestShowFindsAllOfAnID(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	id := b.Add("malformed", 0)
	b.Add("panicked", 0, func(p *amqp.Publishing) { p.MessageId = id })
	if out := b.must("show", id); !strings.Contains(out, "malformed") || !strings.Contains(out, "panicked") {
		t.Errorf("it shows\n%s", out)
	}
}
