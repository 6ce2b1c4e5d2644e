package systemtest

import (
	"testing"
	"time"

	"example.com/transactional-outbox/internal/servertest"
)

const (
	workers = 8 // CONSUMER_WORKERS, unless it is set

	// leasesEnded counts the e-mails whose lease is over by the database's clock.
	leasesEnded = "SELECT count(*) FROM notifications WHERE status = 'sending' AND lease_until <= now()"
)

// TestP6ARestartOfTheDatabaseRepeatsNoEmail: the mail server says 250 while PostgreSQL is
// restarted by its fast shutdown, so that no e-mail can be marked sent.
func TestP6ARestartOfTheDatabaseRepeatsNoEmail(t *testing.T) {
	t.Parallel()
	private := servertest.Postgres(t)
	s := newSystemOn(t, private, broker)
	mail := s.scriptMail()
	_, first := s.trusted(quick)
	dots, orders := mail.holdDots(t), ordersOf(workers)
	s.emit(orders...)
	dots.await(t)

	must(t, private.Stop(t.Context()))
	dots.release()
	s.wantTaken(mail, 1+workers)
	must(t, private.Start(t.Context()))
	s.notifications.Reset() // the test's own connections died as well
	s.wantCount(80*time.Second, s.notifications, 1+workers, sent)
	s.wantNothingLeft()
	s.wantOneCopyEach(append(orders, first)...)
	s.wantNoneDead()
}

// TestP6ADatabaseThatIsAwayBeyondTheLeaseRepeatsNothing: the mail server says 250 and the
// database stays away until each lease is over, with the session of the broker or without.
func TestP6ADatabaseThatIsAwayBeyondTheLeaseRepeatsNothing(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(*servertest.Proxy){
		"the session of the broker stays":  func(*servertest.Proxy) {},
		"the session of the broker breaks": (*servertest.Proxy).Cut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			mail := s.scriptMail()
			broker, throughBroker := s.proxied(notificationService)
			database, throughDatabase := s.before("database")
			_, first := s.trusted(quick, throughBroker, throughDatabase)
			dots, orders := mail.holdDots(t), ordersOf(workers)
			s.emit(orders...)
			dots.await(t)

			refuse(database)
			dots.release()
			s.wantTaken(mail, 1+workers)
			lost(broker)
			if !within(65*time.Second, func() bool { return one[int](s, s.notifications, leasesEnded) == workers }) {
				s.endLeases() // a lease that is longer than a test can wait
			}
			admit(database)
			s.wantCount(20*time.Second, s.notifications, 1+workers, sent)
			s.wantNothingLeft()
			s.wantOneCopyEach(append(orders, first)...)
			s.wantNoneDead()
		})
	}
}

// wantTaken waits until the mail server has said 250 to so many e-mails.
func (s *system) wantTaken(mail *scriptedMail, n int) {
	s.Helper()
	if !within(soon, func() bool { return mail.copies() >= n }) {
		s.Fatalf("the mail server took %d e-mails, want %d", mail.copies(), n)
	}
}
