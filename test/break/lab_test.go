package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestChangesAreUndoneOnceInReverseOrder(t *testing.T) {
	l := &lab{}
	var undone []string
	note := func(what string) func(context.Context) error {
		return func(context.Context) error { undone = append(undone, what); return nil }
	}
	early := l.registerUndo(note("early"))
	l.registerUndo(note("first"))
	l.registerUndo(note("second"))
	must(t, early(t.Context()))
	must(t, l.close())
	if got := strings.Join(undone, " "); got != "early second first" {
		t.Errorf("undone: %s", got)
	}
}

func TestAFailedUndoIsRepeatedAndReported(t *testing.T) {
	l, tries := &lab{}, 0
	undo := l.registerUndo(func(context.Context) error { tries++; return errors.New("no broker") })
	if err := undo(t.Context()); err == nil {
		t.Error("its failure was ignored")
	}
	if err := l.close(); err == nil || !strings.Contains(err.Error(), "not undone: no broker") || tries != 2 {
		t.Errorf("%d tries, then: %v", tries, err)
	}
}

func TestAwaitPrintsWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		l := &lab{report: report{out: &out}}
		looks := 0
		must(t, l.await(t.Context(), time.Minute, func(context.Context) (string, error) {
			if looks++; time.Duration(looks)*pollInterval > 25*time.Second {
				return "", nil
			}
			return "an e-mail is missing", nil
		}))
		if printed := strings.Count(out.String(), "an e-mail is missing"); printed != 2 {
			t.Errorf("in 25 s it was printed %d times, want 2", printed)
		}
		never := func(context.Context) (string, error) { return "an e-mail is missing", nil }
		if err := l.await(t.Context(), time.Minute, never); err == nil || !strings.Contains(err.Error(), "an e-mail is missing") {
			t.Errorf("after the limit: %v", err)
		}
		ctx, interrupt := context.WithTimeout(t.Context(), time.Second)
		defer interrupt()
		if err := l.await(ctx, time.Minute, never); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("interrupted: %v", err)
		}
	})
}
