package relay

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/internal/store"
)

// TestP4ABacklog has rows of the simulation that are not random: a backlog, and a broker that is
// slow, or events that it refuses, or that end its sessions.
func TestP4ABacklog(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		window      int
		events, bad int           // some of them are bad, at even distances
		fault       string        // of the bad ones
		each, delay time.Duration // of the broker
		from        time.Duration // until then it is quick
		within      time.Duration // the good ones are published
		repeats     int           // at most
	}{
		"30 a second":            {window: 200, events: 2000, each: time.Second / 30, within: 70 * time.Second},
		"100 a second":           {window: 200, events: 2000, each: time.Second / 100, within: 22 * time.Second},
		"after 1.2 s":            {window: 200, events: 2000, delay: 1200 * time.Millisecond, within: 25 * time.Second},
		"after 3 s":              {window: 200, events: 2000, delay: 3 * time.Second, within: 55 * time.Second},
		"after 9 s":              {window: 200, events: 2000, delay: 9 * time.Second, within: 150 * time.Second},
		"30 a second, 3 s later": {window: 200, events: 2000, each: time.Second / 30, delay: 3 * time.Second, within: 150 * time.Second},
		"30 a second, 9 s later": {window: 200, events: 200, each: time.Second / 30, delay: 9 * time.Second, within: 200 * time.Second},
		"after 10.1 s":           {window: 200, events: 20, delay: 10100 * time.Millisecond, within: 5 * time.Minute, repeats: 5},
		"30 a second from 0.1 s": {window: 200, events: 4000, each: time.Second / 30, from: time.Second / 10, within: 130 * time.Second, repeats: 20},
		"5 a second from 0.1 s":  {window: 200, events: 1000, each: time.Second / 5, from: time.Second / 10, within: 200 * time.Second, repeats: 400},
		"20 silent topics first": {window: 200, events: 220, bad: 20, fault: "silent", within: 10 * time.Second, repeats: 20},
		"2000 refused first":     {window: 200, events: 2005, bad: 2000, fault: "refused", within: 5 * time.Second, repeats: 1000},
		"one closes channels":    {window: 2000, events: 2000, bad: 1, fault: "closed", within: time.Second, repeats: 2000},
		"thirty close channels":  {window: 2000, events: 4000, bad: 30, fault: "closed", within: 5 * time.Second, repeats: 4000},
		"one ends connections":   {window: 2000, events: 2000, bad: 1, fault: "lost", within: 5 * time.Second, repeats: 2000},
		"one alone ends them":    {window: 2000, events: 1, bad: 1, fault: "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := profile{relays: 1, workers: 2, window: row.window, badTopic: row.fault, faults: []fault{{row.fault, 0}}, soon: 2 * time.Millisecond, delay: row.delay, inOrder: true}
				s := newSim(t, p, 1)
				for i := range row.events {
					topic, isBad := "t", row.bad > 0 && i%(row.events/row.bad) == row.events/row.bad/2
					if row.fault == "silent" || row.fault == "refused" {
						isBad = i < row.bad // the first ones
					}
					if row.fault == "silent" { // each has a topic of its own
						topic = fmt.Sprintf("t%d", min(i, row.bad))
					}
					s.append(store.Event{Topic: topic}, 0)
					s.events[i].isBad = isBad
				}
				s.startRelay("A", 1)
				time.Sleep(row.from)
				s.mu.Lock()
				s.each = row.each
				s.mu.Unlock()
				time.Sleep(row.within)
				synctest.Wait()
				repeats, left := 0, 0
				s.mu.Lock()
				for _, e := range s.events {
					repeats += max(0, e.sent-1)
					if e.ended.IsZero() && !e.isBad {
						left++
					}
				}
				s.mu.Unlock()
				t.Logf("%d were sent once more, %d sessions", repeats, s.relays[0].relay.health.sessions.Load())
				if left > 0 || repeats > row.repeats {
					t.Errorf("%d are not published, %d were sent once more", left, repeats)
				}
				time.Sleep(time.Minute)
				s.mu.Lock()
				for _, e := range s.events {
					if e.isBad && e.counted == 0 && row.fault != "silent" {
						t.Errorf("event %d has ended sessions, and that counts for nothing", e.number)
					}
				}
				s.faultsOver, s.each, s.delay = true, 0, 0
				s.mu.Unlock()
				s.term(s.relays[0], false)
				if <-s.relays[0].ended; s.failure != "" {
					t.Error(s.failure)
				}
			})
		})
	}
}
