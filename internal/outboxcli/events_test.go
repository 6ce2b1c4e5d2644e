package outboxcli

import (
	"context"
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
		"":                         ids[:3],
		"--older-than 1h":          {ids[0], ids[2]},
		"--topic order.created":    ids[:2],
		"--older-than 3h":          nil,
		"--status pending":         ids[3:],
		"--limit 2":                ids[:2],
		"--limit 3":                ids[:3],
		"--older-than 2026-01-31":  nil,
		"--topic order.cancelled ": {ids[2]},
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
}

// TestFailedEventsAreDecidedAndRecorded, by ids and by flags. A dry run changes nothing.
func TestFailedEventsAreDecidedAndRecorded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		line     string // an index stands for an id
		changed  []int
		left     []int // these stay as they were
		recorded string
	}{
		"all":             {"replay --all", []int{0, 1, 2}, nil, "--all"},
		"all given up":    {"discard --all", []int{0, 1, 2}, nil, "--all"},
		"by age":          {"replay --older-than 1h", []int{0, 2}, nil, "--older-than 1h"},
		"by topic":        {"discard --topic order.created", []int{0, 1}, nil, "--topic order.created"},
		"by both":         {"replay --older-than 90m --topic order.created", []int{0}, nil, "--older-than 90m --topic order.created"},
		"nothing":         {"replay --older-than 1d", nil, nil, ""},
		"an id twice":     {"replay 0 1 0", []int{0, 1}, nil, "ids"},
		"some not failed": {"discard 3 0 4 5", []int{0}, []int{3, 4, 5}, "ids"},
		"none failed":     {"replay 3", nil, []int{3}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := f.append("order.created", "order.created", "order.cancelled", "order.created", "order.created")
			f.fail(2, ids[0], ids[2])
			f.fail(0, ids[1])
			f.publish(0, ids[3])
			ids = append(ids, uuid.NewString())
			line := []string{"outbox"}
			for word := range strings.FieldsSeq(test.line) {
				if len(word) == 1 {
					word = ids[word[0]-'0']
				}
				line = append(line, word)
			}
			var want []string
			for _, i := range test.changed {
				want = append(want, ids[i])
			}
			for _, flags := range [][]string{{"--json", "--dry-run"}, {"--json", "--by", "ann"}} {
				if len(f.decisions()) > 0 || len(logged.with(ids[0])) > 0 {
					t.Error("a dry run decides")
				}
				out, _, err := f.run(t.Context(), slices.Concat(line, flags)...)
				if got := idsOf(t, out); !slices.Equal(got, want) || status(err) != min(2, 2*len(test.left)) {
					t.Errorf("%q: error %v, it prints %v, want %v", flags, err, got, want)
				}
				for _, i := range test.left {
					wantAll(t, err.Error(), "stays as it was:\n  ", ids[i]+map[int]string{3: " is published", 4: " is pending", 5: " is not in"}[i])
				}
			}
			becomes, others := "discarded", []string(nil)
			if line[1] == "replay" {
				becomes, others = "pending", ids[4:5]
			}
			f.wantIn(becomes, append(want, others...)...)
			recorded := f.decisions()
			if len(recorded) != min(1, len(test.changed)) {
				t.Fatalf("%d decisions", len(recorded))
			}
			for _, d := range recorded {
				if d.Filter != test.recorded || string(d.Action) != line[1] || d.Operator != "ann" || d.Via != operate.CLI || d.Done != len(test.changed) {
					t.Errorf("recorded is %+v", d)
				}
			}
			for _, i := range test.changed {
				if lines := logged.with(ids[i]); len(lines) != 1 || !strings.Contains(lines[0], `"by":"ann"`) {
					t.Errorf("logged is %q", lines)
				}
			}
		})
	}
}

// TestManyEventsAreChangedInBatches, each with its record in its transaction. The database refuses
// the last batch. An event that fails meanwhile is not changed.
func TestManyEventsAreChangedInBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := append(f.append(slices.Repeat([]string{"order.created"}, 1000)...), f.append("order.created")...)
	f.fail(0, ids...)
	f.exec(fmt.Sprintf("ALTER TABLE outbox_discarded ADD CHECK (id <> '%s')", ids[1000]))
	_, progress, err := f.run(t.Context(), "outbox", "discard", "--all")
	if status(err) != 1 || progress != "500 of 1001 (49%)\n1000 of 1001 (99%)\n" {
		t.Errorf("error %v, progress %q", err, progress)
	}
	wantAll(t, err.Error(), "1000 discarded, then: ", "run the command again to go on")
	f.wantIn("discarded", ids[:1000]...)
	if d := f.decisions()[0]; d.Batches != 2 || d.Done != 1000 {
		t.Errorf("recorded is %+v", d)
	}
	f.exec("UPDATE outbox_queue SET failed_at = now() + interval '1 hour'")
	if out := f.must("replay", "--all"); out != "There are no failed events like that. Nothing was replayed.\n" {
		t.Errorf("it prints %q", out)
	}
}

// TestWhatAFilterFindsAndCannotBeSentIsNamed, but not what another operator has changed meanwhile.
func TestWhatAFilterFindsAndCannotBeSentIsNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("order.created", "order.created", "order.created")
	f.fail(1, ids...)
	f.exec("DELETE FROM outbox_events WHERE id = $1", ids[0])
	// The other operator's transaction ends when the command waits for it.
	other, err := f.db.Pool().Begin(t.Context())
	if err == nil {
		_, err = other.Exec(t.Context(), "UPDATE outbox_queue SET failed_at = NULL, available_at = now() WHERE id = $1", ids[1])
	}
	if err != nil {
		t.Fatal(err)
	}
	committed := make(chan error)
	go func() {
		f.awaitLock()
		committed <- other.Commit(context.WithoutCancel(t.Context()))
	}()
	out, _, err := f.run(t.Context(), "outbox", "replay", "--all")
	if failed := <-committed; failed != nil || status(err) != 2 || out != "1 replayed.\n" {
		t.Fatalf("errors %v, %v, it prints %q", failed, err, out)
	}
	if err.Error() != "this stays as it was:\n  "+ids[0]+" cannot be sent: its payload is gone from the log" {
		t.Error(err)
	}
	f.wantIn("failed", ids[0])
	if out := f.must("show", ids[0]); !strings.HasSuffix(out, "payload\n\n") {
		t.Errorf("it shows\n%s", out)
	}
}

// TestReplayRefusesWhatANewerEventHasSuperseded, and replays the others.
func TestReplayRefusesWhatANewerEventHasSuperseded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("order.created", "order.created")
	f.fail(1, ids...)
	f.exec(`WITH done AS (DELETE FROM outbox_queue WHERE id = $1 RETURNING *)
		INSERT INTO outbox_discarded (id, slot, superseded, failed_at, retry_count) SELECT id, slot, true, failed_at, retry_count FROM done`, ids[0])
	_, _, err := f.run(t.Context(), "outbox", "replay", ids[0], ids[1])
	if status(err) != 2 || !strings.Contains(err.Error(), ids[0]+" is not sent: a newer event of order ") {
		t.Errorf("error %v", err)
	}
	f.wantIn("superseded", ids[0])
	f.wantIn("pending", ids[1])
}

// awaitLock returns when somebody waits for a lock.
func (f fixture) awaitLock() {
	const waiting = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	for found := false; !found && f.Context().Err() == nil; {
		if err := f.db.Pool().QueryRow(f.Context(), waiting).Scan(&found); err != nil {
			f.Error(err)
			return
		}
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
	wantAll(t, out, `{"topic":"order.created","since":"2`, `"until":null,"operator":"ann","halted":1,"more_halted":false,"reason":"the broker`)
	if out := f.must("resume", "order.created", "--json", "--by", "bob"); out != `{"topic":"order.created","state":"resumed"}`+"\n" {
		t.Errorf("it prints %q", out)
	}
	_, _, err = f.run(t.Context(), "outbox", "resume", "order.created")
	if status(err) != 2 || !strings.Contains(err.Error(), "order.created is not paused; `shop outbox topics` lists") {
		t.Errorf("a second time: error %v", err)
	}
	recorded := f.decisions()
	if len(recorded) != 2 || recorded[0].Action != operate.Resume || recorded[0].Operator != "bob" || recorded[1].Action != operate.Pause ||
		!strings.HasPrefix(recorded[1].Filter, "--reason the broker") || recorded[1].Operator != "ann" {
		t.Errorf("recorded is %+v", recorded)
	}
}
