package system

import (
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/test/env/mailserver"
)

// permutations are all sequences of three versions, and the right one once more.
var permutations = [][]int{{0, 1, 2}, {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// TestP5P6P7EmailsOfAnOrderAreSentInVersionOrder publishes the events of each order in any
// sequence, while e-mails of the same orders are being sent, and then all of them once more. Two
// replicas take them, and one is killed again and again. The mail server answers late, and refuses
// some at first.
func TestP5P6P7EmailsOfAnOrderAreSentInVersionOrder(t *testing.T) {
	t.Parallel()
	const (
		orders, versions, kills = 350, 3, 2*3 + 1
		// A kill repeats what the connections have in flight, and what they have sent while the last mark
		// was written (docs/guarantees.md, P6). An idle machine needs fewer.
		perKill = 2 * 8
	)
	s := newSystem(t)
	running := []*service{s.startConsumer(), s.startConsumer()}
	s.mail.SetFault(mailserver.Fault{DataDelay: 5 * time.Millisecond, Rcpt: func(to string, times int) string {
		if strings.HasPrefix(to, "0") && times == 1 {
			return notNow
		}
		return ""
	}})
	byID, rounds := map[string]orderEvent{}, make([][]orderEvent, versions)
	for i := range orders {
		events := lifecycleEvents()
		for r, v := range permutations[i%len(permutations)] {
			byID[events[v].messageID()] = events[v]
			rounds[r] = append(rounds[r], events[v])
		}
	}
	kill := func() {
		running[0].kill()
		running = append(running[1:], s.startConsumer())
	}
	for _, events := range rounds { // the smallest one makes 150 e-mails
		before := len(s.mail.Mails())
		s.publish(publishings(events)...)
		for i := range 2 {
			if !eventually(func() bool { return len(s.mail.Mails()) >= before+50*(i+1) }) {
				t.Fatalf("%d e-mails came, want 50 more", len(s.mail.Mails()))
			}
			kill()
		}
	}
	s.publish(publishings(slices.Concat(rounds...))...)
	kill()
	s.awaitCount(s.notificationsDB, versions*orders, recordedCount)
	s.awaitCount(s.notificationsDB, 0, waitingCount)

	sent, newest, repeats := map[string]int{}, map[string]int{}, 0
	for _, mail := range s.mail.Mails() {
		id := mail.MessageID
		event := byID[id]
		if sent[id]++; sent[id] > 1 {
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
	t.Logf("%d e-mails of %d events, %d repeats after %d kills", len(s.mail.Mails()), len(byID), repeats, kills)
	s.wantNothingFailed(running[0])
}
