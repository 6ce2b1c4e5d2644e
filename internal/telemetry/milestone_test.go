package telemetry

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lockedLog may be read while a timer writes: the race detector does not know that a bubble's time
// stands still meanwhile.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestMilestonesAreLimited: at high rates only some lines are written, and a warning says how many
// were left out.
func TestMilestonesAreLimited(t *testing.T) { //nolint:paralleltest // it sets the process's logger
	for level, want := range map[slog.Level][]int{ // lines at once, a second later, and for one more
		slog.LevelInfo:  {3, 4, 5},
		slog.LevelDebug: {10, 10, 11},
		slog.LevelWarn:  {0, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out lockedLog
			lines := func() int { return strings.Count(out.String(), "\n") }
			logger := slog.Default()
			LogTo(&out, "shop", level)
			defer slog.SetDefault(logger)
			l := newRateLimited(1, 3)
			for range 10 {
				l.log(t.Context(), "message arrived", "message_id", "m-1")
			}
			got := []int{lines()}
			time.Sleep(time.Second)
			synctest.Wait() // for the warning
			got = append(got, lines())
			l.log(t.Context(), "message arrived", "message_id", "m-2")
			got = append(got, lines())
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("level %s: %d lines, want %d:\n%s", level, got, want, out.String())
				}
			}
			if level == slog.LevelInfo && strings.Count(out.String(), `"lines_left_out":7`) != 1 {
				t.Errorf("no warning of 7 lines:\n%s", out.String())
			}
		})
	}
}
