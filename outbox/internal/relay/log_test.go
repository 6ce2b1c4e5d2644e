package relay

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
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
			inVirtualTime(t, func(v *virtual) {
				var log bytes.Buffer
				v.config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				v.outbox.onClaim = func(int) (*store.Claim, error) { return nil, outage.claimErr }
				v.broker.answers = answerAll(outage.outcome)
				v.run()
				for range hour / time.Minute {
					v.outbox.append("order.created", 3)
					v.sleep(time.Minute)
				}
				v.stop()
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

// TestStatsHaveTheTimesOfClaimsMarksAndEvents: the claim takes a minute, and the destination half a
// second. The latency begins with the event, and has the claim once.
func TestStatsHaveTheTimesOfClaimsMarksAndEvents(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(v *virtual) {
		v.outbox.onClaim = func(n int) (*store.Claim, error) {
			if n > 1 {
				return nil, nil
			}
			time.Sleep(time.Minute)
			return &store.Claim{Token: uuid.New(), Events: []store.Event{{ID: uuid.New(), Topic: "a", Age: 62}}, Superseded: 3}, nil
		}
		v.broker.answers, v.broker.after = answerAll(publish.Confirmed), func(int) time.Duration { return time.Second / 2 }
		v.run()
		v.sleep(2 * time.Minute)
		if s := v.relay.Counters(); s.Latency.Sum != 62.5 || s.Claims.Seconds != 60 || s.Claims.Count < 2 || s.Marks != (Timing{Count: 1}) || s.Superseded != 3 {
			t.Errorf("latency %v s, claims %+v, marks %+v, %d superseded", s.Latency.Sum, s.Claims, s.Marks, s.Superseded)
		}
	})
}

func TestAnEventIsFailedAndCountedOnce(t *testing.T) {
	t.Parallel()
	for lost, want := range map[bool][2]uint64{false: {1, 0}, true: {0, 1}} {
		inVirtualTime(t, func(v *virtual) {
			v.outbox.leaseLost, v.broker.answers = lost, answerAll(publish.Invalid)
			v.outbox.append("a", 1)
			var called uint64
			v.config.OnFailed = func(_ context.Context, e store.Event, reason string) {
				if called++; v.outbox.became[e.ID] != "failed" || e.Topic != "a" || reason == "" {
					t.Errorf("OnFailed is called with %+v and %q", e, reason)
				}
			}
			v.run()
			if s := v.relay.Counters(); s.Failed != want[0] || s.LeaseLost != want[1] || called != want[0] {
				t.Errorf("lease lost %v: %v failed and %v lost are counted, want %v; %d calls", lost, s.Failed, s.LeaseLost, want, called)
			}
		})
	}
}
