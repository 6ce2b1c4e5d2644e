package system

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// oversized returns a good order with a body that is larger than any event may be.
func oversized(size int) amqp.Publishing {
	m := orderFor("large@example.com")
	padding := append(bytes.Repeat([]byte("x"), size), `", "product_id"`...)
	m.Body = bytes.Replace(m.Body, []byte(`"product_id"`), append([]byte(`"padding": "`), padding...), 1)
	return m
}

// TestLargeMessagesFitIntoTheMemory fills the prefetch with messages of 1 MB, and some that are too
// large, in a service with the memory of its container. They arrive while the database takes its
// time.
//
//nolint:paralleltest // a quarter of a gigabyte goes through the broker, and other tests have time limits
func TestLargeMessagesFitIntoTheMemory(t *testing.T) {
	const large, tooLarge = 250, 6
	s := newSystem(t)
	running, first := s.startWarmConsumer("GOMEMLIMIT=200MiB")
	s.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$;
		CREATE TRIGGER slow BEFORE INSERT ON order_progress EXECUTE FUNCTION slow()`)
	orders := []amqp.Publishing{first}
	for range tooLarge {
		s.publish(oversized(15 << 20))
	}
	for range large {
		m := oversized(1_000_000)
		s.publish(m)
		orders = append(orders, m)
	}
	s.wantDeadLetterCount(awaitTimeout, tooLarge)
	s.wantCount(awaitTimeout, s.notificationsDB, len(orders), sentCount)
	running.wantPeakMemory()
	s.wantOneEmailEach(orders...)
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
