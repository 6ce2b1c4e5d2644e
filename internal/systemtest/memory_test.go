package systemtest

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

// plain is notification-service without the race detector, whose memory is many times that
// of the service.
var plain = sync.OnceValues(func() (name string, err error) {
	const folder = "plain/"
	err = goBuild("-o", filepath.Join(binaries, folder)+"/", "./notification-service")
	return folder + "notification-service", err
})

// TestP9LargeMessagesFitIntoTheMemory has as many messages of 15 MiB as are prefetched, in a
// service with the memory of its container. All workers wait for the mail server when they
// come, so that they stay in memory if they wait for a worker.
//
//nolint:paralleltest // half a gigabyte goes through the broker, and other tests have bounds in time
func TestP9LargeMessagesFitIntoTheMemory(t *testing.T) {
	const prefetched = 32
	s := newSystem(t)
	mail := s.scriptMail()
	name, err := plain()
	must(t, err)
	s.consuming(quick).stop()
	var held []amqp.Publishing
	for i := range workers {
		held = append(held, orderOf(fmt.Sprintf("held-%d@example.com", i)))
	}
	first, orders := orderOf("first@example.com"), ordersOf(5)
	s.emit(append([]amqp.Publishing{first}, held...)...)
	for range prefetched {
		s.emit(enlarged(15 << 20))
	}
	s.emit(orders...)

	dots := mail.holdDotsOf(t, "held-")
	running := s.runNotificationsAs(name, quick, "GOMEMLIMIT=200MiB")
	dots.await(t)
	waiting := prefetched + len(orders) - (prefetched - workers) // in the queue, the others being out
	if !within(soon, func() bool { return s.messagesIn(mainQueue) <= waiting }) {
		t.Errorf("%d messages are still in the queue, want at most %d", s.messagesIn(mainQueue), waiting)
	}
	pass(5 * time.Second) // the broker has sent them, and they arrive
	running.wantPeakMemory()
	dots.release()

	all := slices.Concat(held, orders, []amqp.Publishing{first})
	if !s.wantCount(soon, s.notifications, len(all), sent) {
		return
	}
	s.wantDeadLetters(soon, prefetched)
	running.wantPeakMemory()
	s.wantOneCopyEach(all...)
}

// wantPeakMemory wants the process never to have had more in memory than its container has.
func (s *service) wantPeakMemory() {
	s.Helper()
	const most = 256 << 10 // KiB
	used := s.peakMemory()
	s.Logf("it used up to %d MiB", used>>10)
	if used > most {
		s.Errorf("it used up to %d MiB, want at most %d", used>>10, most>>10)
	}
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the most that the process has had in memory, in KiB.
func (s *service) peakMemory() int {
	s.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid))
	must(s.T, err)
	match := highWater.FindSubmatch(status)
	if match == nil {
		s.Fatalf("no peak in %s", status)
	}
	used, err := strconv.Atoi(string(match[1]))
	must(s.T, err)
	return used
}
