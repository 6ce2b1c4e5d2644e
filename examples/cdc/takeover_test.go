package main

import (
	"syscall"
	"testing"
	"time"
)

func TestAStandbyTakesOverFromAKilledReader(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	first := s.startReading(noPoll)
	standby := s.start(noPoll)
	standby.awaitLog("standby: another reader has the slot")
	s.orders(20)
	s.awaitQueue(0)
	first.kill()
	killed := time.Now()
	s.orders(20)
	standby.awaitLog("reading the log")
	t.Logf("took over after %s", time.Since(killed).Round(time.Millisecond))
	s.awaitQueue(0)
	s.wantOnceAndInOrder()
}

// TestAStandbyTakesOverFromASuspendedReader resumes the first reader afterwards: it becomes the
// standby.
func TestAStandbyTakesOverFromASuspendedReader(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	first := s.startReading(noPoll)
	standby := s.start(noPoll)
	standby.awaitLog("standby: another reader has the slot")
	s.orders(20)
	s.awaitQueue(0)
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	suspended := time.Now()
	s.orders(20)
	standby.awaitLog("reading the log")
	t.Logf("took over after %s, with CDC_TIMEOUT=2s", time.Since(suspended).Round(time.Millisecond))
	s.awaitQueue(0)
	if err := first.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	first.awaitLog("standby: another reader has the slot")
	s.orders(20)
	s.awaitQueue(0)
	s.wantOnceAndInOrder()
}

func TestASigtermSettlesAndAcknowledges(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	r := s.startReading(noPoll)
	s.orders(50)
	r.stop()
	s.startReading(noPoll)
	s.awaitQueue(0)
	s.wantOnceAndInOrder()
}
