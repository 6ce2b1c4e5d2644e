package outbox_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
)

// TestP1TheCommitWaitsForTheDisk also for a user who has turned that off. The relay could otherwise
// send an event that a crash of PostgreSQL then forgets. The next transaction has the user's
// setting.
func TestP1TheCommitWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			conn, err := dbtest.Pool(t, withSetting(url, "default_query_exec_mode="+mode)).Acquire(t.Context())
			must(t, err)
			defer conn.Release()
			for set, want := range map[string]string{
				"off": "on", "local": "local", "remote_write": "remote_write", "on": "on", "remote_apply": "remote_apply",
			} {
				_, err := conn.Exec(t.Context(), "SET synchronous_commit = "+set)
				must(t, err)
				must(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
					must(t, outbox.Append(t.Context(), tx, created(t.Name()+set, 1)))
					if got := synchronousCommit(t, tx); got != want {
						t.Errorf("%s has become %s, want %s", set, got, want)
					}
					return nil
				}))
				if got := synchronousCommit(t, conn); got != set {
					t.Errorf("afterwards %s is %s", set, got)
				}
			}
		})
	}
}

func synchronousCommit(t *testing.T, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) (setting string) {
	t.Helper()
	must(t, db.QueryRow(t.Context(), "SELECT current_setting('synchronous_commit')").Scan(&setting))
	return setting
}

// TestTheTraceIsStored also if it is not sampled: the consumer's logs have its id. An event's own
// traceparent is of that event alone. A tracestate belongs to the trace of the context, and is stored
// as a header, unless the event has one or it is too long.
func TestTheTraceIsStored(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	const notSampled, sampled = "00-01000000000000000000000000000000-0200000000000000-00", "00-01000000000000000000000000000000-0200000000000000-01"
	c := trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}
	without, with := trace.NewSpanContext(c), trace.NewSpanContext(c).WithTraceFlags(trace.FlagsSampled)
	state := func(value string) trace.SpanContext {
		s, err := trace.ParseTraceState(value)
		must(t, err)
		return with.WithTraceState(s)
	}
	long := "a=" + strings.Repeat("x", 200) + ",b=" + strings.Repeat("x", 200) + ",c=" + strings.Repeat("x", 200)
	for _, test := range []struct {
		span      trace.SpanContext
		own, want string // of two events
		states    string // of the two
	}{
		{span: state("a=1,b=2"), own: notSampled, want: notSampled + " " + sampled, states: "none a=1,b=2"},
		{span: state("a=1,b=2"), want: sampled + " " + sampled, states: "mine=3 a=1,b=2"},
		{span: state(long), want: sampled + " " + sampled},
		{want: " "},
		{span: without, want: notSampled + " " + notSampled},
		{span: with, want: sampled + " " + sampled},
		{own: sampled, want: sampled + " "},
	} {
		tx := begin(t, pool)
		own, other := created("17", 1), created("18", 1)
		own.Traceparent = test.own
		if strings.HasPrefix(test.states, "mine") {
			own.Headers = map[string]string{"tracestate": "mine=3"}
		}
		must(t, outbox.Append(trace.ContextWithSpanContext(t.Context(), test.span), tx, own, other))
		var got, states string
		must(t, tx.QueryRow(t.Context(), `SELECT string_agg(traceparent, ' ' ORDER BY seq),
			string_agg(coalesce(headers ->> 'tracestate', 'none'), ' ' ORDER BY seq) FROM outbox_events`).Scan(&got, &states))
		if got != test.want || states != cmp.Or(test.states, "none none") {
			t.Errorf("stored %q and %q, want %q and %q", got, states, test.want, test.states)
		}
		must(t, tx.Rollback(t.Context()))
	}
}

// TestAppendLocksNoOlderEvent: a relay can mark the older event, while the transaction that
// supersedes it is open. The statement would otherwise wait until the deadline.
func TestAppendLocksNoOlderEvent(t *testing.T) {
	t.Parallel()
	pool := dbtest.Migrated(t)
	inTx(t, pool, func(tx pgx.Tx) error { return outbox.Append(t.Context(), tx, created("17", 1)) })
	newer := created("17", 2)
	newer.Supersedes = true
	open := begin(t, pool)
	must(t, outbox.Append(t.Context(), open, newer))
	inTx(t, pool, func(tx pgx.Tx) error {
		deleted, err := tx.Exec(t.Context(), `WITH now AS (SELECT set_config('lock_timeout', '1s', true))
			DELETE FROM outbox_queue WHERE version = 1 AND (SELECT count(*) FROM now) = 1`)
		if deleted.RowsAffected() != 1 {
			t.Errorf("deleted %d events, want the older one", deleted.RowsAffected())
		}
		return err
	})
	must(t, open.Commit(t.Context()))
}

// TestP1AppendDoesNotCompileOutsideATransaction builds testdata/outsidetx. Each line marked
// "refused" there must not compile, for the reason that the mark gives. All others must.
func TestP1AppendDoesNotCompileOutsideATransaction(t *testing.T) {
	t.Parallel()
	// -e reports all errors, not only the first ten.
	build := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "-o", os.DevNull, "./testdata/outsidetx")
	output, err := build.CombinedOutput()
	if err == nil {
		t.Fatal("the package compiles")
	}
	refusals := markedLines(t, "testdata/outsidetx/outsidetx.go")
	for line, reason := range refusals {
		if !reports(string(output), fmt.Sprintf("outsidetx.go:%d:", line), reason) {
			t.Errorf("line %d is not refused for %q", line, reason)
		}
	}
	if said := strings.Count(string(output), "outsidetx.go:"); len(refusals) != 6 || said != 6 || t.Failed() {
		t.Errorf("%d lines are marked and %d refused, want 6:\n%s", len(refusals), said, output)
	}
}

// markedLines returns the reasons after "// refused: ", by line number.
func markedLines(t *testing.T, path string) map[int]string {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer func() { _ = file.Close() }()
	reasons := map[int]string{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		if _, reason, found := strings.Cut(lines.Text(), "// refused: "); found {
			reasons[n] = reason
		}
	}
	return reasons
}

func reports(output, line, reason string) bool {
	for said := range strings.Lines(output) {
		if strings.Contains(said, line) && strings.Contains(said, reason) {
			return true
		}
	}
	return false
}
