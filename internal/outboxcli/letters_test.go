package outboxcli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// fakeLetters are dead letters, and the record of decisions about them. They note what a command
// does: "begin A B", "replay A", "removed", "finish 1".
type fakeLetters struct {
	letters []rabbitmq.DeadLetter
	notes   []string
	by      operate.By     // of the last decision
	headers map[string]any // of the last replay
	next    int
	// at is called at each note. A replay ends as it says, if it says anything.
	at func(note string) publish.Result
}

// newFake returns dead letters with these ids. Each failed an hour earlier than the one before.
func newFake(ids ...string) *fakeLetters {
	f := &fakeLetters{at: func(string) publish.Result { return publish.Result{} }}
	for i, id := range ids {
		f.letters = append(f.letters, rabbitmq.DeadLetter{
			Message: rabbitmq.Message{ID: id, RoutingKey: "order.created", Body: []byte(`{"quantity": 2}`)},
			Code:    "malformed", Reason: "red \x1b[31m " + strings.Repeat("x", 100), FailedAt: time.Now().Add(-time.Duration(i) * time.Hour),
		})
	}
	return f
}

func (f *fakeLetters) note(format string, args ...any) publish.Result {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
	return f.at(f.notes[len(f.notes)-1])
}

func (f *fakeLetters) Count() int { return len(f.letters) }

func (f *fakeLetters) Next() (l rabbitmq.DeadLetter, ok bool, err error) {
	if f.next == len(f.letters) {
		return l, false, nil
	}
	f.next++
	return f.letters[f.next-1], true, nil
}

func (f *fakeLetters) Replay(_ context.Context, l rabbitmq.DeadLetter, headers map[string]any) publish.Result {
	f.headers = headers
	if r := f.note("replay %s", l.ID); r.Outcome != 0 || r.Err != nil {
		return r
	}
	return publish.Result{Outcome: publish.Confirmed}
}

func (f *fakeLetters) Discard(l rabbitmq.DeadLetter) error { return f.note("discard %s", l.ID).Err }
func (f *fakeLetters) Removed() error                      { return f.note("removed").Err }

func (f *fakeLetters) Begin(ctx context.Context, by operate.By, _ operate.Action, items []string) (uuid.UUID, error) {
	f.by = by
	return uuid.Nil, errors.Join(ctx.Err(), f.note("begin %s", strings.Join(items, " ")).Err)
}

func (f *fakeLetters) Finish(ctx context.Context, _ uuid.UUID, done int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return f.note("finish %d", done).Err
}

// run runs a command of dlq.
func (f *fakeLetters) run(ctx context.Context, line ...string) (out, progress string, err error) {
	f.next, f.notes = 0, nil
	e := newEnv(shop, Servers{}, nil, nil)
	e.letters = func(ctx context.Context, use func(context.Context, letters) error) error { return use(ctx, f) }
	e.recorder = func(_ context.Context, use func(recorder) error) error { return use(f) }
	return e.run(ctx, append([]string{"dlq"}, line...)...)
}

func TestDeadLettersAreChosenByFlags(t *testing.T) {
	t.Parallel()
	f := newFake("A", "B", "C", "A", "timeless")
	f.letters[1].RoutingKey, f.letters[2].Code, f.letters[4].FailedAt = "order.cancelled", "unreadable", time.Time{}
	for line, want := range map[string]string{
		"":                              "A B C A timeless",
		"--older-than 1h":               "B C A",
		"--reason malformed":            "A B A timeless",
		"--routing-key order.cancelled": "B",
		"--reason malformed --routing-key order.created --older-than 90m": "A",
		"--reason none": "",
		"--limit 5":     "A B C A timeless",
		"--limit 2":     "A B",
	} {
		out, progress, err := f.run(t.Context(), append([]string{"list", "--json"}, strings.Fields(line)...)...)
		if got := strings.Join(idsOf(t, out), " "); got != want || err != nil || strings.Contains(progress, "there are more") != (line == "--limit 2") {
			t.Errorf("list %s: %s, error %v, %q; want %s", line, got, err, progress, want)
		}
		if strings.Contains(line, "limit") {
			continue
		}
		args := append([]string{"discard", "--dry-run", "--json"}, strings.Fields(line)...)
		if line == "" {
			args = append(args, "--all")
		}
		if out, _, err := f.run(t.Context(), args...); strings.Join(idsOf(t, out), " ") != want || err != nil || f.notes != nil {
			t.Errorf("%q: error %v, %v, it prints %s", args, err, f.notes, out)
		}
	}
	if out, _, err := f.run(t.Context(), "list", "--reason", "none"); err != nil || out != "There are no messages like that in shop.dlq.\n" {
		t.Errorf("error %v, %s", err, out)
	}
	out, _, err := f.run(t.Context(), "replay", "--reason", "none")
	if err != nil || out != "There are no messages like that in shop.dlq. Nothing was replayed.\n" {
		t.Errorf("error %v, %s", err, out)
	}
	// Long work reports its progress.
	_, progress, err := newFake(make([]string, 1001)...).run(t.Context(), "list", "--reason", "none")
	if want := "500 of 1001 (49%)\n1000 of 1001 (99%)\n1001 of 1001 (100%)\n"; err != nil || progress != want {
		t.Errorf("error %v, progress %q", err, progress)
	}
}

// TestAnUnreadableDeadLetterHidesNoOther: any publisher may have written it.
func TestAnUnreadableDeadLetterHidesNoOther(t *testing.T) {
	t.Parallel()
	f := newFake("A", "A", "A")
	f.letters[0].Code, f.letters[0].Body = "unreadable", []byte("\xff\x00")
	f.letters[0].Headers = map[string]any{"far": time.Unix(1<<50, 0)}
	f.letters[1].Headers = map[string]any{"nan": math.NaN()}
	f.letters[2].Body, f.letters[2].Headers = []byte("two\nlines \x1b[31m"), map[string]any{"\xff": "\xfe", "\xfe": "\xff"}
	out, _, err := f.run(t.Context(), "show", "A")
	if err != nil || strings.Contains(out, "\x1b") {
		t.Errorf("error %v, and it controls the terminal: %t", err, strings.Contains(out, "\x1b"))
	}
	wantAll(t, out, "unreadable", "base64", "body\n/wA=\n", "nan:NaN", "35680317-09-25T18:57:04Z", "age             1h0m0s", "body\ntwo\nlines  [31m\n")
	for name, line := range map[string]string{"show": "show A --json", "list": "list --json"} {
		if out, _, err := f.run(t.Context(), strings.Fields(line)...); err != nil || len(idsOf(t, out)) != 3 {
			t.Errorf("%s: error %v\n%s", name, err, out)
		}
	}
	out, _, err = f.run(t.Context(), "list")
	wantAll(t, out, "ID  ROUTING KEY    AGE", "red  [31m xxx")
	if lines := strings.Split(out, "\n"); err != nil || len(lines) != 5 || strings.Contains(out, strings.Repeat("x", 60)) {
		t.Errorf("error %v\n%s", err, out)
	}
	if _, _, err := f.run(t.Context(), "show", "B"); status(err) != 1 || !strings.Contains(err.Error(), "shop dlq list") {
		t.Errorf("error %v", err)
	}
}

// TestEachBatchIsRecordedBeforeItsFirstMessageIsChanged, and finished after its last. A batch has at
// most 100 messages or 8 MiB.
func TestEachBatchIsRecordedBeforeItsFirstMessageIsChanged(t *testing.T) {
	t.Parallel()
	many := make([]string, 250)
	for i := range many {
		many[i] = uuid.NewString()
	}
	for _, action := range []string{"replay", "discard"} {
		f := newFake(many...)
		if out, _, err := f.run(t.Context(), action, "--all", "--by", "ann"); err != nil || out != "250 "+action+"ed.\n" {
			t.Errorf("error %v, it prints %q", err, out)
		}
		var want []string
		for batch := range slices.Chunk(many, 100) {
			want = append(want, "begin "+strings.Join(batch, " "))
			for _, id := range batch {
				want = append(want, action+" "+id)
			}
			want = append(want, "removed", fmt.Sprintf("finish %d", len(batch)))
		}
		if !slices.Equal(f.notes, want) || f.by.Operator != "ann" || f.by.Via != operate.CLI || f.by.Filter != "--all" {
			t.Errorf("%s by %+v:\n%q", action, f.by, f.notes)
		}
		if decision := f.headers["x-operator-decision"]; action == "replay" && decision != f.by.Decision.String() {
			t.Errorf("the decision in the copy is %v, want %s", decision, f.by.Decision)
		}
	}
	f := newFake("A", "B", "C", "D", "E", "F", "G", "H", "I", "J")
	for i := range f.letters {
		f.letters[i].Body = make([]byte, 1<<20)
	}
	if _, _, err := f.run(t.Context(), "discard", "--older-than", "0h1s"); err != nil || f.notes[0] != "begin B C D E F G H I" {
		t.Errorf("error %v, %q", err, f.notes[0])
	}
	if f.by.Filter != "--older-than 0h1s" {
		t.Errorf("recorded as %q", f.by.Filter)
	}
}

// TestWhatBecameOfABatch of A, B and C, one of which goes wrong.
func TestWhatBecameOfABatch(t *testing.T) {
	t.Parallel()
	cause := errors.New("because")
	for name, test := range map[string]struct {
		line   string
		fails  string // at this note
		result publish.Result
		notes  string // after the record has begun
		status int
		words  []string
	}{
		"all done":      {"replay C A C B", "", publish.Result{}, "replay A, replay B, replay C, removed, finish 3", 0, nil},
		"not recorded":  {"discard --all", "begin A B C", publish.Result{Err: cause}, "", 1, []string{"0 discarded, then", "none of these messages was changed: because", "again"}},
		"no queue":      {"replay --all", "replay B", publish.Result{Outcome: publish.Returned, Err: cause}, "replay A, replay B, removed, finish 1", 1, []string{"1 replayed, then: B (order.created) was not replayed: because; start the services"}},
		"a full queue":  {"replay --all", "replay B", publish.Result{Outcome: publish.Refused, Err: cause}, "replay A, replay B, removed, finish 1", 1, []string{"full"}},
		"nobody knows":  {"replay --all", "replay B", publish.Result{Outcome: publish.Unknown, Err: cause}, "replay A, replay B", 1, []string{"broker runs"}},
		"never sent":    {"replay --all", "replay B", publish.Result{Outcome: publish.Invalid, Err: cause}, "replay A, replay B, replay C, removed, finish 2", 2, []string{"B cannot be sent: because"}},
		"lost removal":  {"replay --all", "removed", publish.Result{Err: cause}, "replay A, replay B, replay C, removed", 1, []string{"did not confirm that the messages are removed"}},
		"lost discard":  {"discard --all", "discard B", publish.Result{Err: cause}, "discard A, discard B", 1, []string{"1 discarded, then"}},
		"no end":        {"discard --all", "finish 3", publish.Result{Err: cause}, "discard A, discard B, discard C, removed, finish 3", 1, []string{"end of the decision cannot be recorded"}},
		"unknown id":    {"discard B nobody", "", publish.Result{}, "discard B, removed, finish 1", 2, []string{"nobody is not in the queue, or another"}},
		"all unknown":   {"discard nobody", "", publish.Result{}, "", 2, []string{"nobody is not in the queue"}},
		"ids, dry run":  {"replay B nobody --dry-run", "", publish.Result{}, "", 2, []string{"nobody is not in the queue"}},
		"--older-than":  {"replay --older-than 30m", "", publish.Result{}, "replay B, replay C, removed, finish 2", 0, nil},
		"interrupted":   {"discard --all", "discard A", publish.Result{}, "discard A, removed, finish 1", 1, []string{"1 discarded, then: interrupted"}},
		"never started": {"discard --all", "", publish.Result{}, "", 1, []string{"0 discarded, then: interrupted"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake("A", "B", "C")
			ctx, interrupt := context.WithCancelCause(t.Context())
			defer interrupt(nil)
			if name == "never started" {
				interrupt(errors.New("interrupted"))
			}
			f.at = func(note string) publish.Result {
				if note != test.fails {
					return publish.Result{}
				}
				if name == "interrupted" {
					interrupt(errors.New("interrupted"))
				}
				return test.result
			}
			_, _, err := f.run(ctx, strings.Fields(test.line)...)
			if notes := strings.Join(f.notes[min(1, len(f.notes)):], ", "); notes != test.notes || status(err) != test.status {
				t.Errorf("error %v, %q; want %q", err, f.notes, test.notes)
			}
			if err != nil {
				wantAll(t, err.Error(), test.words...)
			}
		})
	}
}

// TestAMessageWithoutAnIDCannotBeReplayed: the consumer would make it a dead letter again.
func TestAMessageWithoutAnIDCannotBeReplayed(t *testing.T) {
	t.Parallel()
	f := newFake("", "B")
	f.letters[0].FailedAt = time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	out, _, err := f.run(t.Context(), "replay", "--all")
	if out != "1 replayed.\n" || status(err) != 2 || !strings.Contains(err.Error(), "one without an id cannot be sent") ||
		f.notes[0] != "begin without an id, malformed at 2026-01-31T08:00:00Z B" {
		t.Errorf("error %v, %q, it prints %q", err, f.notes, out)
	}
}

// TestADiscardIsLoggedFirst, so that no message is removed without a line. It is not parallel,
// because the log is that of the process.
func TestADiscardIsLoggedFirst(t *testing.T) { //nolint:paralleltest // see above
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	defer slog.SetDefault(before)
	f := newFake("A")
	f.at = func(note string) publish.Result {
		if there := strings.Contains(logged.String(), "message_id=A"); there != (note != "begin A") {
			t.Errorf("%s: it is logged: %t", note, there)
		}
		return publish.Result{}
	}
	if _, _, err := f.run(t.Context(), "discard", "--all"); err != nil || len(f.notes) != 4 {
		t.Errorf("%q, error %v", f.notes, err)
	}
}
