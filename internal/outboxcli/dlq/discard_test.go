package dlq_test

import (
	"strings"
	"testing"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

func TestEachChangeIsInTheLog(t *testing.T) {
	t.Parallel()
	for command, said := range map[string]string{"replay": "dead letter replayed", "discard": "dead letter discarded"} {
		b := newFixture(t)
		id := b.Add("malformed", 0)
		b.must(command, id, "--dry-run")
		if lines := logged.With(id); len(lines) != 0 {
			t.Errorf("a dry run logs %q", lines)
		}
		b.must(command, id)
		lines := logged.With(id)
		if len(lines) != 1 {
			t.Fatalf("%s logs %q", command, lines)
		}
		for _, want := range []string{
			`"level":"INFO"`, `"msg":"` + said + `"`, `"message_id":"` + id + `"`, `"routing_key":"order.created"`,
			`"failure_code":"malformed"`, `"failure_reason":"because of malformed"`, `"size":15`, `"by":"somebody"`,
		} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("no %s in %s", want, lines[0])
			}
		}
	}
}

func TestADiscardIsLoggedFirst(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.Add("malformed", 0)
	lines := 0
	b.Hooks.Changing = func(m rabbitmq.DeadLetter) { lines = len(logged.With(m.ID)) }
	b.must("discard", "--all")
	if lines != 1 {
		t.Errorf("%d lines before the message is removed", lines)
	}
}
