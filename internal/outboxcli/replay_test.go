package outboxcli_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/outboxcli"
	"example.com/transactional-outbox/outbox/operate"
)

// decisions are the commands that change failed events, with the status after each.
var decisions = map[string]string{"replay": "pending", "discard": "discarded"}

func TestFailedEventsAreChosenByIDOrFilter(t *testing.T) {
	t.Parallel()
	for command, becomes := range decisions {
		for line, want := range map[string][]int{
			"--all":                                 {0, 1, 2},
			"--older-than 1h":                       {0, 2},
			"--topic order.created":                 {0, 1},
			"--topic order.created --older-than 1h": {0},
			"--older-than 24h":                      {},
		} {
			t.Run(command+" "+line, func(t *testing.T) {
				t.Parallel()
				b := newFixture(t)
				ids := slices.Concat(b.append("order.created"), b.append("order.created"), b.append("order.cancelled"))
				b.fail(2, ids...)
				b.fail(0, ids[1])
				published := b.append("order.created")
				b.publish(0, published...)
				chosen := []uuid.UUID{}
				for _, i := range want {
					chosen = append(chosen, ids[i])
				}

				before := b.table()
				dry := b.must(append([]string{command, "--dry-run", "--json"}, strings.Fields(line)...)...)
				if got := b.ids(dry); !slices.Equal(sorted(got...), sorted(chosen...)) {
					t.Errorf("a dry run prints %v, want %v", got, chosen)
				}
				if !slices.Equal(b.table(), before) {
					t.Error("a dry run changes the outbox")
				}
				done := b.must(append([]string{command, "--json"}, strings.Fields(line)...)...)
				if got := b.ids(done); !slices.Equal(sorted(got...), sorted(chosen...)) {
					t.Errorf("it prints %v, want %v", got, chosen)
				}
				if got := b.in(becomes); !slices.Equal(got, sorted(chosen...)) {
					t.Errorf("%s are %v, want %v", becomes, got, chosen)
				}
				if got := b.in("published"); !slices.Equal(got, published) {
					t.Errorf("published are %v, want %v", got, published)
				}
			})
		}
	}
}

func TestReplaySkipsIDsThatAreUnknownOrNotFailed(t *testing.T) {
	t.Parallel()
	for command, becomes := range decisions {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t)
			failed, published, pending := b.append("order.created"), b.append("order.created"), b.append("order.created")
			b.fail(0, failed...)
			b.publish(0, published...)
			unknown := uuid.New()
			pendingBefore := len(b.in("pending"))
			line := []string{command, unknown.String(), published[0].String(), failed[0].String(), "--dry-run", pending[0].String(), failed[0].String()}
			for _, dry := range []bool{true, false} {
				if !dry {
					line = slices.DeleteFunc(line, func(arg string) bool { return arg == "--dry-run" })
				}
				out, _, err := b.run(line...)
				if err == nil || !strings.HasPrefix(err.Error(), "3 events could not be "+command) {
					t.Fatalf("error %v, want one of 3 events", err)
				}
				for _, reason := range []string{
					unknown.String() + " is not in the outbox",
					published[0].String() + " is published, not failed",
					pending[0].String() + " is pending, not failed",
				} {
					if !strings.Contains(err.Error(), reason) {
						t.Errorf("the error is %v, without %q", err, reason)
					}
				}
				if !strings.Contains(out, "1 event ") || strings.Contains(out, failed[0].String()) != dry {
					t.Errorf("it prints %q", out)
				}
				if got := b.in("failed"); dry != slices.Equal(got, failed) {
					t.Errorf("with a dry run %t, failed are %v", dry, got)
				}
			}
			want := map[string]int{"pending": pendingBefore}
			want[becomes]++
			if got := len(b.in(becomes)); got != want[becomes] {
				t.Errorf("%d are %s, want %d", got, becomes, want[becomes])
			}
			if got := b.in("published"); !slices.Equal(got, published) {
				t.Errorf("published are %v, want %v", got, published)
			}
		})
	}
}

func TestEachChangeIsInTheLog(t *testing.T) {
	t.Parallel()
	for command, message := range map[string]string{"replay": "event replayed", "discard": "event discarded"} {
		b := newFixture(t)
		ids := b.append("order.created")
		b.fail(0, ids...)
		b.must(command, ids[0].String(), "--dry-run")
		if lines := logged.With(ids[0].String()); len(lines) != 0 {
			t.Errorf("a dry run logs %q", lines)
		}
		b.must(command, ids[0].String())
		lines := logged.With(ids[0].String())
		if len(lines) != 1 {
			t.Fatalf("%s logs %q", command, lines)
		}
		for _, want := range []string{
			`"level":"INFO"`, `"msg":"` + message + `"`, `"message_id":"` + ids[0].String() + `"`,
			`"topic":"order.created"`, `"aggregate_id":`, `"by":"somebody"`,
		} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("no %s in %s", want, lines[0])
			}
		}
	}
}

func TestManyEventsAreReplayedInBatchesWithProgress(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := slices.Concat(b.appendMany(1000), b.appendMany(1))
	b.fail(0, ids...)
	out, progress, err := b.run("replay", "--all")
	if err != nil || out != "1001 events replayed.\n" {
		t.Errorf("it prints %q, error %v", out, err)
	}
	if want := "500 of 1001 events (49%)\n1000 of 1001 events (99%)\n1001 of 1001 events (100%)\n"; progress != want {
		t.Errorf("progress %q, want %q", progress, want)
	}
	if got := b.in("pending"); !slices.Equal(got, ids) {
		t.Errorf("%d are pending, want %d", len(got), len(ids))
	}
}

// TestAFailedBatchKeepsTheBatchesBefore makes the database refuse the last batch.
func TestAFailedBatchKeepsTheBatchesBefore(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := b.appendMany(600)
	b.fail(0, ids...)
	b.exec("ALTER TABLE outbox_discarded ADD CHECK (id <> '" + ids[550].String() + "')")
	_, _, err := b.run("discard", "--all")
	if err == nil || !strings.Contains(err.Error(), "500 of 600 events discarded") || !strings.Contains(err.Error(), "again") {
		t.Errorf("error %v, want how far it came and what to do", err)
	}
	if got := b.in("discarded"); !slices.Equal(got, ids[:500]) {
		t.Errorf("%d are discarded, want the first batch", len(got))
	}
}

// TestReplayNamesWhatCannotBeSent also if a filter has chosen it. Discard takes it.
func TestReplayNamesWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := b.appendMany(2)
	b.fail(0, ids...)
	b.exec("DELETE FROM outbox_events WHERE id = $1", ids[0])
	for _, line := range []string{"replay --all --dry-run", "replay --all", "replay " + ids[0].String()} {
		_, _, err := b.run(strings.Fields(line)...)
		for _, want := range []string{"1 event could not be replayed", ids[0].String() + " cannot be sent: its payload is gone"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, without %q", line, err, want)
			}
		}
	}
	if got := b.in("failed"); !slices.Equal(got, ids[:1]) {
		t.Errorf("failed are %v, want %v", got, ids[:1])
	}
	if out := b.must("show", ids[0].String()); !strings.Contains(out, "failed at") || !strings.HasSuffix(out, "payload\nnull\n") {
		t.Errorf("it shows\n%s", out)
	}
	if out := b.must("discard", "--all"); out != "1 event discarded.\n" {
		t.Errorf("it prints %q", out)
	}
}

// TestTwoOperatorsAtOnce: an event that another operator has replayed meanwhile is no error for one
// who chose by a filter.
func TestTwoOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := b.appendMany(2)
	b.fail(1, ids...)
	other, err := b.db.Pool().Begin(t.Context())
	if err == nil {
		_, err = other.Exec(t.Context(), "UPDATE outbox_queue SET failed_at = NULL, available_at = now() WHERE id = $1", ids[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	committed := make(chan error)
	go func() {
		const waiting = "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
		for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
			var n int
			if err := b.db.Pool().QueryRow(t.Context(), waiting).Scan(&n); err != nil || n > 0 {
				break
			}
		}
		committed <- other.Commit(t.Context())
	}()
	out, _, err := b.run("replay", "--all")
	if err := errors.Join(err, <-committed); err != nil || out != "1 event replayed.\n" {
		t.Errorf("it prints %q, error %v", out, err)
	}
}

// TestReplayIgnoresEventsThatFailWhileItRuns: otherwise the command would never end while events
// keep failing.
func TestReplayIgnoresEventsThatFailWhileItRuns(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := b.appendMany(502)
	b.fail(1, ids[:501]...)
	action, err := orders.Parse([]string{"replay", "--all"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	afterABatch := writer(sync.OnceFunc(func() { b.fail(0, ids[501]) }))
	if err := action(t.Context(), outboxcli.Dependencies{Outbox: operate.New(b.db.Pool()), Out: io.Discard, Progress: afterABatch, By: "somebody"}); err != nil {
		t.Fatal(err)
	}
	if got := b.in("failed"); !slices.Equal(got, ids[501:]) {
		t.Errorf("%d are failed, want the one that failed later", len(got))
	}
}

// writer calls a function at each write.
type writer func()

func (w writer) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}
