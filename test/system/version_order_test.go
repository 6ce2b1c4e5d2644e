package system

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// permutations are all sequences of three versions, and the right one once more.
var permutations = [][]int{{0, 1, 2}, {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// TestP5P6P7EmailsOfAnOrderAreSentInVersionOrder publishes the events of each order in any
// sequence, while e-mails of the same orders are being sent, and then all of them once more. Two
// replicas take them, and one is killed again and again. The mail server takes 5 ms, and refuses
// some at first.
func TestP5P6P7EmailsOfAnOrderAreSentInVersionOrder(t *testing.T) {
	t.Parallel()
	const (
		orders, versions, kills = 350, 3, 6
		// A kill repeats what the connections have in hand, and what they have sent while the last mark
		// was written (docs/guarantees.md, P6). An idle machine needs fewer.
		perKill = 2 * 8
	)
	s := newSystem(t)
	running := []*service{s.startConsumer(), s.startConsumer()}
	s.mail.answer(answers{
		rcpt: func(to string) error {
			if strings.HasPrefix(to, "0") && s.mail.timesAsked(to) == 1 {
				return refusal(451, 4, 3, 0)(to)
			}
			return nil
		},
		dot: func(string) error { time.Sleep(5 * time.Millisecond); return nil },
	})
	byID, rounds := map[string]orderEvent{}, make([][]orderEvent, versions)
	for i := range orders {
		events := lifecycleEvents()
		for r, v := range permutations[i%len(permutations)] {
			byID[events[v].messageID()] = events[v]
			rounds[r] = append(rounds[r], events[v])
		}
	}
	rounds = append(rounds, slices.Concat(rounds...))
	for i := range kills {
		if i < len(rounds) {
			s.publish(publishings(rounds[i])...)
		}
		before := len(s.mail.accepted())
		poll(5*time.Millisecond, time.Second, func() bool { return len(s.mail.accepted()) >= before+50 })
		running[0].kill()
		running = append(running[1:], s.startConsumer())
	}
	s.awaitCount(s.notificationsDB, versions*orders, recordedCount)
	s.awaitCount(s.notificationsDB, 0, waitingCount)

	sent, newest, repeats := map[string]int{}, map[string]int{}, 0
	for _, e := range s.mail.accepted() {
		event := byID[e.messageID]
		if sent[e.messageID]++; sent[e.messageID] > 1 {
			repeats++
		}
		order := event.order.String()
		if event.version < newest[order] {
			t.Errorf("version %d of %s came after version %d", event.version, order, newest[order])
		}
		newest[order] = max(newest[order], event.version)
	}
	for order, version := range newest {
		if version != versions {
			t.Errorf("the last e-mail of %s is of version %d", order, version)
		}
	}
	if len(newest) != orders {
		t.Errorf("e-mails of %d orders, want of %d", len(newest), orders)
	}
	if repeats > kills*perKill {
		t.Errorf("%d repeats after %d kills, want at most %d for each", repeats, kills, perKill)
	}
	t.Logf("%d e-mails of %d events, %d repeats after %d kills", len(s.mail.accepted()), len(byID), repeats, kills)
	s.wantNothingFailed(running[0])
}

// TestP7ASupersededEmailIsNotSent: its recipient does not exist, so it fails, and the next one of
// its order supersedes it. After that it cannot be sent any more, but another failed e-mail can.
func TestP7ASupersededEmailIsNotSent(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.startConsumer()
	events, other := lifecycleEvents(), newEvents(1)[0]
	s.mail.answer(answers{rcpt: func(to string) error {
		if to == events[1].address() {
			return nil
		}
		return refusal(550, 5, 1, 1)(to)
	}})
	s.publishUntilRouted(events[0], other)
	s.awaitCount(s.notificationsDB, 2, failedCount)
	s.publishUntilRouted(events[1])
	s.awaitCount(s.notificationsDB, 1, sentCount)
	if asked := s.mail.timesAsked(events[0].address()); asked != 1 {
		t.Errorf("the server was asked %d times about a recipient that does not exist", asked)
	}

	s.mail.acceptAll()
	output, err := s.tryCommand(notificationService, "outbox", "replay", events[0].id.String(), other.id.String())
	if !strings.Contains(output, "superseded") {
		t.Errorf("the replay of a superseded e-mail ends with %v: %s", err, output)
	}
	s.awaitCount(s.notificationsDB, 2, sentCount)
	s.wantOneEmailEach(events[1].publishing(), other.publishing())
	s.wantCount(0, s.notificationsDB, 1, fmt.Sprintf("SELECT count(*) FROM outbox_status WHERE status = 'superseded' AND id = '%s'", events[0].id))
}
