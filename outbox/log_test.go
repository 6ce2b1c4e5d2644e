package outbox

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// TestP4AnOutageWritesFewLines: an hour without the database, or with a destination that takes
// nothing, writes at most one line of each message every 10 s.
func TestP4AnOutageWritesFewLines(t *testing.T) {
	t.Parallel()
	const hour, most = time.Hour, 360 + 2
	for name, outage := range map[string]struct {
		claimErr error
		outcome  publish.Outcome
	}{
		"no database":       {claimErr: errors.New("away"), outcome: publish.Confirmed},
		"it refuses all":    {outcome: publish.Refused},
		"it never confirms": {outcome: publish.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				config := testConfig
				config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				events := newFakeOutbox(0)
				events.claimErr = outage.claimErr
				stop := start(t, relayWith(config, events), answerAll(outage.outcome))
				for began := time.Now(); time.Since(began) < hour; time.Sleep(time.Minute) {
					events.append("order.created", 3)
				}
				stop()
				synctest.Wait()
				count := map[string]int{}
				for line := range strings.Lines(log.String()) {
					_, message, _ := strings.Cut(line, "msg=")
					count[message[:min(20, len(message))]]++
				}
				if len(count) == 0 {
					t.Error("nothing is logged")
				}
				for message, n := range count {
					if n > most {
						t.Errorf("%d lines in an hour of %s…, want at most %d", n, message, most)
					}
				}
			})
		})
	}
}

func TestLeftOutLinesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := newLines(slog.New(slog.NewTextHandler(&log, nil)))
		for range 5 {
			l.trouble(t.Context(), "away")
			l.trouble(t.Context(), "another message")
		}
		time.Sleep(logPeriod)
		l.trouble(t.Context(), "away")
		if got := log.String(); strings.Count(got, "msg=away") != 2 || !strings.Contains(got, "lines_left_out=4") {
			t.Errorf("the log is\n%s", got)
		}
		log.Reset()
		for range 2 * mostSteps {
			l.step(t.Context(), "published")
		}
		if n := strings.Count(log.String(), "msg=published"); n != mostSteps {
			t.Errorf("%d steps are logged, want %d", n, mostSteps)
		}
	})
}
