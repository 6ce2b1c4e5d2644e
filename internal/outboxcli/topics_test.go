package outboxcli_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"example.com/transactional-outbox/outbox/operate"
)

func TestATopicIsPausedListedAndResumed(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	if out := b.must("topics"); out != "No topic is paused.\n" {
		t.Errorf("without a pause it prints %q", out)
	}
	ids := b.append("order.created")
	if out := b.must("pause", "order.created", "--reason", "the broker \x1b[31mmoves"); out != "order.created paused.\n" {
		t.Errorf("it prints %q", out)
	}
	b.exec("UPDATE outbox_queue SET halted = true, available_at = 'infinity'") // as a claim does it
	out := b.must("topics")
	for _, want := range []string{"TOPIC", "order.created", "until", "somebody", " 1 ", "the broker  [31mmoves"} {
		if !strings.Contains(strings.ToLower(out), strings.ToLower(want)) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out := b.must("show", ids[0].String()); !strings.Contains(out, "topic's pause") {
		t.Errorf("show does not say what it waits for:\n%s", out)
	}
	if out := b.must("resume", "order.created", "--json"); out != `{"state":"resumed","topic":"order.created"}`+"\n" {
		t.Errorf("it prints %q", out)
	}
	if out := b.must("topics", "--json"); out != "" {
		t.Errorf("still paused: %s", out)
	}
	_, _, err := b.run("resume", "order.created")
	if err == nil || !strings.Contains(err.Error(), `"order.created" is not paused`) || !strings.Contains(err.Error(), "outbox topics") {
		t.Errorf("a second time: error %v", err)
	}
	recorded := b.decisions()
	if len(recorded) != 2 || recorded[0].Action != operate.Resume || recorded[1].Action != operate.Pause ||
		!strings.HasPrefix(recorded[1].Filter, "--reason the broker") || recorded[1].Operator != "somebody" {
		t.Errorf("recorded %+v", recorded)
	}
}

func TestPausesOfTheRelayAreListedAndMore(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.exec("INSERT INTO outbox_topics (topic, until, pause, reason) VALUES ('order.created', now() + interval '9 s', 9, 'no queue is bound')")
	b.must("pause", "*", "--reason", "restored from a backup")
	out, progress, err := b.run("topics", "--json", "--limit", "1")
	var every struct {
		Topic, Operator, Reason string
		Until                   *string
	}
	if jsonErr := json.Unmarshal([]byte(out), &every, json.MatchCaseInsensitiveNames(true)); err != nil || jsonErr != nil ||
		every.Topic != "*" || every.Operator != "somebody" || every.Until != nil || !strings.Contains(progress, "there are more") {
		t.Errorf("%s, %q, error %v, %v", out, progress, err, jsonErr)
	}
	for _, want := range []string{"the relay", "no queue is bound"} {
		if out := b.must("topics"); !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	b.must("resume", "order.created")
	if out := b.must("topics"); strings.Contains(out, "order.created") {
		t.Errorf("still paused:\n%s", out)
	}
}
