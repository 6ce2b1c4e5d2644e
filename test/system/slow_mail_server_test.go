package system

import (
	"syscall"
	"testing"
	"time"
)

// TestP6ASlowMailServerGetsEachEmailOnce answers after more than two leases.
func TestP6ASlowMailServerGetsEachEmailOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.startConsumer()
	s.startConsumer() // it must not take the e-mails over
	orders := newOrders(8)
	s.mail.delayDots(t, 8*time.Second) // the lease is 3 s
	s.publish(orders...)
	s.wantCount(awaitTimeout, s.notificationsDB, len(orders), sentCount)
	s.wantOneEmailEach(orders...)
}

// TestP12SIGTERMFinishesTheEmailsInFlight answers 12 s after the dot. What has begun is finished,
// and nothing else begins.
func TestP12SIGTERMFinishesTheEmailsInFlight(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	running, first := s.startWarmConsumer()
	dots, orders := s.mail.delayDots(t, 12*time.Second), newOrders(30)
	s.publish(orders...)
	if !eventually(awaitTimeout, func() bool { return dots.Load() == connections }) {
		t.Fatalf("%d e-mails are being sent, want %d", dots.Load(), connections)
	}
	running.stop()
	s.wantCount(0, s.notificationsDB, 1+connections, sentCount)

	s.mail.acceptAll()
	s.startConsumer()
	s.wantCount(awaitTimeout, s.notificationsDB, 1+len(orders), sentCount)
	s.wantOneEmailEach(append(orders, first)...)
}

// TestP12SIGTERMBreaksOffWhatTakesTooLong stalls servers while e-mails wait for their answer. The
// service ends in time all the same.
func TestP12SIGTERMBreaksOffWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	for name, stall := range map[string]func(*faultySystem){
		"the mail server":             func(s *faultySystem) { s.mailProxy.Stall() },
		"the database":                func(s *faultySystem) { s.databaseProxy.Stall() },
		"the database and the broker": func(s *faultySystem) { s.databaseProxy.Stall(); s.brokerProxy.Stall() },
		"all of them":                 func(s *faultySystem) { s.mailProxy.Stall(); s.databaseProxy.Stall(); s.brokerProxy.Stall() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFaultySystem(t)
			held := s.mail.holdDots(t, "")
			s.publish(newOrders(connections)...)
			held.await(t, connections)
			stall(s)
			held.release()
			s.running.signal(syscall.SIGTERM)
			s.running.waitAtMost(shutdownLimit)
			s.wantNoDeadLetters()
		})
	}
}
