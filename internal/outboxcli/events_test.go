package outboxcli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

func TestListChoosesByFlags(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if out := f.must("list"); out != "There are no failed events like that.\n" {
		t.Errorf("of an empty outbox it prints %q", out)
	}
	ids := f.append("order.created", "order.created", "order.cancelled", "order.cancelled")
	f.fail(2, ids[0], ids[2])
	f.fail(0, ids[1])
	for line, want := range map[string][]string{
		"--limit 3":                ids[:3],
		"--limit 2":                ids[:2],
		"--older-than 1h":          {ids[0], ids[2]},
		"--topic order.cancelled ": {ids[2]},
		"--status pending":         ids[3:],
	} {
		out, progress, err := f.run(t.Context(), append([]string{"outbox", "list", "--json"}, strings.Fields(line)...)...)
		if got := idsOf(t, out); err != nil || !slices.Equal(got, want) || strings.Contains(progress, "there are more") != (line == "--limit 2") {
			t.Errorf("%s: %v, error %v, %q, want %v", line, got, err, progress, want)
		}
	}
	out := f.must("list", "--older-than", "1h", "--topic", "order.created")
	wantAll(t, out, "ID   ", "AGGREGATE ID", ids[0], "order.created", "2h0m", "20  ", "refused  ", "red  [31m <o'neil@example.com>")
	if lines := strings.Split(out, "\n"); len(lines) != 3 || strings.Index(lines[0], "STATUS") != strings.Index(lines[1], "failed") {
		t.Errorf("it is not aligned:\n%s", out)
	}
}

func TestShowTellsWhatAnEventWaitsFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("order.created", "order.confirmed")
	f.exec("UPDATE outbox_queue SET aggregate_id = 'one', version = CASE id WHEN $1 THEN 1 ELSE 2 END", ids[0])
	f.exec("UPDATE outbox_events SET aggregate_id = 'one', version = CASE id WHEN $1 THEN 1 ELSE 2 END", ids[0])
	f.fail(1, ids[0])
	out := f.must("show", ids[0])
	wantAll(t, out, "failed at", "waiting         1\n", "content type    application/json", "failure reason  red  [31m", "payload\n{\n  \"quantity\": 2,")
	wantAll(t, f.must("show", ids[1]), `blocked by    [{"id":"`+ids[0], "version       2\n")
	wantAll(t, f.must("show", ids[1], "--json"), `"blocked_by":[{"id":"`+ids[0]+`",`, `"waiting":0,`, `"failed_at":null,`, `"failure_code":null,`, `"payload":{"quantity":2,`)
	if _, _, err := f.run(t.Context(), "outbox", "show", uuid.NewString()); status(err) != 1 || !strings.Contains(err.Error(), "shop outbox list") {
		t.Errorf("an unknown event gives the error %v", err)
	}
	f.exec("DELETE FROM outbox_events WHERE id = $1", ids[0])
	if out := f.must("show", ids[0]); !strings.HasSuffix(out, "payload\n\n") {
		t.Errorf("without its row of the log it shows\n%s", out)
	}
}

// TestADecisionPrintsWhatItHasChanged, by ids and by flags, and what stays as it was, with its
// reason. The status says whether something stays. A dry run changes nothing.
func TestADecisionPrintsWhatItHasChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("order.created", "order.created", "order.cancelled", "order.created")
	f.publish(0, ids[3])
	failAgain := func() {
		f.exec("DELETE FROM operator_decisions")
		f.exec(`WITH back AS (DELETE FROM outbox_done WHERE status = 'discarded' RETURNING id)
			INSERT INTO outbox_queue (id, seq, version, aggregate, aggregate_id, topic, bytes)
			SELECT id, seq, version, aggregate, aggregate_id, topic, 9 FROM outbox_events NATURAL JOIN back`)
		f.fail(2, ids[0], ids[2])
		f.fail(0, ids[1])
	}
	for name, test := range map[string]struct {
		line     []string
		changed  []string
		left     string
		recorded string
	}{
		"all":        {[]string{"replay", "--all"}, ids[:3], "", "--all"},
		"by flags":   {[]string{"discard", "--older-than", "90m", "--topic", "order.created"}, ids[:1], "", "--older-than 90m --topic order.created"},
		"an id":      {[]string{"discard", ids[3], ids[0], ids[0]}, ids[:1], ids[3] + " is published", "ids"},
		"nothing":    {[]string{"replay", "--older-than", "1d"}, nil, "", ""},
		"not failed": {[]string{"replay", ids[3]}, nil, ids[3] + " is published", ""},
	} {
		failAgain()
		for _, flags := range [][]string{{"--dry-run"}, {"--by", "ann"}} {
			if len(f.decisions()) > 0 {
				t.Errorf("%s: a dry run decides", name)
			}
			out, _, err := f.run(t.Context(), slices.Concat([]string{"outbox"}, test.line, []string{"--json"}, flags)...)
			if got := idsOf(t, out); !slices.Equal(got, test.changed) || status(err) != map[bool]int{true: 0, false: 2}[test.left == ""] {
				t.Errorf("%s %q: error %v, it prints %v, want %v", name, flags, err, got, test.changed)
			}
			if test.left != "" {
				wantAll(t, err.Error(), "stays as it was:\n  "+test.left)
			}
		}
		recorded := f.decisions()
		if len(recorded) != min(1, len(test.changed)) {
			t.Fatalf("%s: %d decisions", name, len(recorded))
		}
		for _, d := range recorded {
			if d.Filter != test.recorded || string(d.Action) != test.line[0] || d.Operator != "ann" || d.Via != operate.CLI || d.Done != len(test.changed) {
				t.Errorf("%s: recorded is %+v", name, d)
			}
		}
	}
	failAgain()
	f.exec("DELETE FROM outbox_events WHERE id = $1", ids[0])
	out, _, err := f.run(t.Context(), "outbox", "replay", "--all")
	if out != "2 replayed.\n" || status(err) != 2 || !strings.HasSuffix(err.Error(), ids[0]+" cannot be sent: its payload is gone from the log") {
		t.Errorf("without a payload it prints %q, error %v", out, err)
	}
}

// TestManyEventsAreChangedInBatches. The database refuses the last one. An event that fails
// meanwhile is not changed.
func TestManyEventsAreChangedInBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := append(f.append(slices.Repeat([]string{"order.created"}, 1000)...), f.append("order.created")...)
	f.fail(0, ids...)
	f.exec(fmt.Sprintf("ALTER TABLE outbox_done ADD CHECK (id <> '%s')", ids[1000]))
	_, progress, err := f.run(t.Context(), "outbox", "discard", "--all")
	if status(err) != 1 || progress != "500 of 1001 (49%)\n1000 of 1001 (99%)\n" {
		t.Errorf("error %v, progress %q", err, progress)
	}
	wantAll(t, err.Error(), "1000 discarded, then: ", "run the command again to go on")
	if d := f.decisions()[0]; d.Batches != 2 || d.Done != 1000 {
		t.Errorf("recorded is %+v", d)
	}
	f.exec("UPDATE outbox_queue SET failed_at = now() + interval '1 hour'")
	if out := f.must("replay", "--all"); out != "There are no failed events like that. Nothing was replayed.\n" {
		t.Errorf("it prints %q", out)
	}
}

func TestATopicIsPausedListedAndResumed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if out := f.must("topics"); out != "No topic is paused.\n" {
		t.Errorf("without a pause it prints %q", out)
	}
	f.append("order.created")
	if out := f.must("pause", "order.created", "--by", "ann", "--reason", "the broker \x1b[31mmoves"); out != "order.created paused.\n" {
		t.Errorf("it prints %q", out)
	}
	f.exec("UPDATE outbox_queue SET halted = true, available_at = 'infinity'") // as a claim does it
	f.exec("INSERT INTO outbox_topics (topic, until, pause, reason) VALUES ('order.x', now() + interval '9 s', 9, 'no queue is bound')")
	wantAll(t, f.must("topics"), "TOPIC", "order.created", "ann", "  1  ", "the broker  [31mmoves", "no queue is bound")
	out, progress, err := f.run(t.Context(), "outbox", "topics", "--json", "--limit", "1")
	if err != nil || !strings.Contains(progress, "there are more") {
		t.Errorf("error %v, %q", err, progress)
	}
	wantAll(t, out, `{"topic":"order.created","since":"2`, `"until":null,"operator":"ann","waiting":1,"more_waiting":false,"reason":"the broker`)
	if out := f.must("resume", "order.created", "--json", "--by", "bob"); out != `{"topic":"order.created","state":"resumed"}`+"\n" {
		t.Errorf("it prints %q", out)
	}
	_, _, err = f.run(t.Context(), "outbox", "resume", "order.created")
	if status(err) != 2 || !strings.Contains(err.Error(), "order.created is not paused; `shop outbox topics` lists") {
		t.Errorf("a second time: error %v", err)
	}
	if d := f.decisions(); len(d) != 2 || d[0].Operator != "bob" || !strings.HasPrefix(d[1].Filter, "--reason the broker") || d[1].Operator != "ann" {
		t.Errorf("recorded is %+v", d)
	}
}
