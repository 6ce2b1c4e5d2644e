package quietlog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLeftOutLinesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := New(slog.New(slog.NewTextHandler(&log, nil)))
		for range 5 {
			l.Trouble(t.Context(), "away")
			l.Trouble(t.Context(), "another message")
		}
		time.Sleep(logPeriod)
		l.Trouble(t.Context(), "away")
		if got := log.String(); strings.Count(got, "msg=away") != 2 || !strings.Contains(got, "lines_left_out=4") {
			t.Errorf("the log is\n%s", got)
		}
		log.Reset()
		for range 2 * mostSteps {
			l.Step(t.Context(), "published")
		}
		if n := strings.Count(log.String(), "msg=published"); n != mostSteps {
			t.Errorf("%d steps are logged, want %d", n, mostSteps)
		}
	})
}
