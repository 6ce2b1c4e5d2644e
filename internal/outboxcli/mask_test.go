package outboxcli_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"example.com/transactional-outbox/internal/outboxcli"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/publish"
)

// mails is a service whose events have addresses.
var mails = outboxcli.Service{
	Name: "notification-service", Destination: "the mail server", Topic: "example.com", Again: "Customers get them again.", Masked: true,
}

// TestNoCommandPrintsAnAddress that is in a payload, in a header, or in what the mail server said.
func TestNoCommandPrintsAnAddress(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.service = mails
	e := newEvent("0198f2d3", 1, "example.com")
	e.Payload, e.Headers = []byte(`{"to": "o'neil@example.com", "quantity": 2}`), map[string]string{"from": "o'neil@example.com"}
	ids := b.commit([]outbox.Event{e})
	b.fail(1, ids...)
	b.exec("UPDATE outbox_queue SET failure_reason = '550 <o''neil@example.com> is unknown'")
	b.exec("INSERT INTO outbox_topics (topic, until, pause, reason) VALUES ('example.com', now() + interval '1 minute', 1, 'refused o''neil@example.com')")
	for _, line := range []string{
		"list", "list --json", "show " + ids[0].String(), "show --json " + ids[0].String(), "topics", "topics --json",
		"replay --all --dry-run", "discard --all --json",
	} {
		out, progress, err := b.run(strings.Fields(line)...)
		if err != nil || strings.Contains(out+progress, "neil") || !strings.Contains(out, "o***@example.com") {
			t.Errorf("%s: error %v, it prints\n%s%s", line, err, out, progress)
		}
		if strings.Contains(line, "json") && !jsontext.Value(out).IsValid() {
			t.Errorf("%s prints no JSON: %s", line, out)
		}
	}
}

func TestNoErrorHasAnAddress(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.service = mails
	b.publish(0, b.append("example.com")...)
	b.destination = func(ctx context.Context, use func(context.Context, publish.Session) error) error {
		return use(ctx, fakeBroker(func([]publish.Message) []publish.Result {
			return []publish.Result{{Outcome: publish.Refused, Err: errors.New("550 <o'neil@example.com> is unknown")}}
		}))
	}
	_, _, err := b.run("republish", "--since", "1h")
	if err == nil || strings.Contains(err.Error(), "neil") || !strings.Contains(err.Error(), "o***@example.com") {
		t.Errorf("error %v", err)
	}
}
