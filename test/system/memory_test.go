package system

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// withoutRaceDetector builds notification-service without the race detector, which uses many
// times the memory of the service.
var withoutRaceDetector = sync.OnceValues(func() (name string, err error) {
	const folder = "plain/"
	err = goBuild("-o", filepath.Join(binaries, folder)+"/", "./notification-service")
	return folder + "notification-service", err
})

// TestP9LargeMessagesFitIntoTheMemory fills the prefetch with messages of 15 MiB, in a
// service with the memory of its container. All workers wait for the mail server when the
// large messages arrive. So these would stay in memory if they had to wait for a worker.
//
//nolint:paralleltest // half a gigabyte goes through the broker, and other tests have time limits
func TestP9LargeMessagesFitIntoTheMemory(t *testing.T) {
	const prefetched = 32
	s := newSystem(t)
	name, err := withoutRaceDetector()
	must(t, err)
	s.startConsumer(quickRetries).stop()
	var held []amqp.Publishing
	for i := range workers {
		held = append(held, orderFor(fmt.Sprintf("held-%d@example.com", i)))
	}
	first, orders := orderFor("first@example.com"), newOrders(5)
	s.publish(append([]amqp.Publishing{first}, held...)...)
	for range prefetched {
		s.publish(oversized(15 << 20))
	}
	s.publish(orders...)

	replies := s.mail.holdRepliesFor(t, "held-")
	running := s.runNotificationsBinary(name, quickRetries, "GOMEMLIMIT=200MiB")
	replies.await(t)
	waiting := len(orders) + workers // the consumer has prefetched all others
	if !eventually(shortTimeout, func() bool { return s.readyMessages(mainQueue) <= waiting }) {
		t.Errorf("%d messages are still in the queue, want at most %d", s.readyMessages(mainQueue), waiting)
	}
	letTimePass(5 * time.Second) // until the messages that the broker has sent arrive
	running.wantPeakMemory()
	replies.release()

	all := slices.Concat(held, orders, []amqp.Publishing{first})
	if !s.wantCount(shortTimeout, s.notificationsDB, len(all), sentCount) {
		return
	}
	s.wantDeadLetterCount(shortTimeout, prefetched)
	running.wantPeakMemory()
	s.wantOneEmailEach(all...)
}

// wantPeakMemory wants the process never to have used more memory than its container has.
func (s *service) wantPeakMemory() {
	s.Helper()
	const most = 256 << 10 // KiB
	used := s.peakMemory()
	s.Logf("it used up to %d MiB", used>>10)
	if used > most {
		s.Errorf("it used up to %d MiB, want at most %d", used>>10, most>>10)
	}
}

var peakMemoryPattern = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory returns the most memory that the process has used, in KiB.
func (s *service) peakMemory() int {
	s.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid))
	must(s.T, err)
	match := peakMemoryPattern.FindSubmatch(status)
	if match == nil {
		s.Fatalf("no peak in %s", status)
	}
	used, err := strconv.Atoi(string(match[1]))
	must(s.T, err)
	return used
}
