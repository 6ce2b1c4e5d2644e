package system

import (
	"testing"
	"time"

	"example.com/transactional-outbox/test/servers"
)

const expiredLeaseCount = "SELECT count(*) FROM notifications WHERE status = 'sending' AND lease_until <= now()"

// TestP6ADatabaseRestartRepeatsNoEmail restarts PostgreSQL while the mail server replies 250,
// so that the service cannot mark any e-mail as sent.
func TestP6ADatabaseRestartRepeatsNoEmail(t *testing.T) {
	t.Parallel()
	private := servers.Postgres(t)
	s := newSystemOn(t, private, sharedBroker)
	_, first := s.startWarmConsumer(quickRetries)
	replies, orders := s.mail.holdReplies(t), newOrders(workers)
	s.publish(orders...)
	replies.await(t)

	must(t, private.Stop(t.Context()))
	replies.release()
	s.mail.awaitAccepted(t, 1+workers)
	must(t, private.Start(t.Context()))
	s.notificationsDB.Reset() // the restart closed the test's own connections as well
	s.wantCount(80*time.Second, s.notificationsDB, 1+workers, sentCount)
	s.wantQueuesEmpty()
	s.wantOneEmailEach(append(orders, first)...)
	s.wantNoDeadLetters()
}

// TestP6ADatabaseOutageBeyondTheLeaseRepeatsNoEmail keeps the database away until all leases
// have ended, while the mail server replies 250. The session with the broker stays or breaks.
func TestP6ADatabaseOutageBeyondTheLeaseRepeatsNoEmail(t *testing.T) {
	t.Parallel()
	for name, affect := range map[string]func(*servers.Proxy){
		"the session of the broker stays":  func(*servers.Proxy) {},
		"the session of the broker breaks": (*servers.Proxy).Cut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			broker, throughBroker := s.brokerProxy(notificationService)
			database, throughDatabase := s.databaseProxy()
			_, first := s.startWarmConsumer(quickRetries, throughBroker, throughDatabase)
			replies, orders := s.mail.holdReplies(t), newOrders(workers)
			s.publish(orders...)
			replies.await(t)

			refuseConnections(database)
			replies.release()
			s.mail.awaitAccepted(t, 1+workers)
			affect(broker)
			if !eventually(65*time.Second, func() bool { return queryValue[int](s, s.notificationsDB, expiredLeaseCount) == workers }) {
				s.expireLeases() // the lease is longer than a test can wait
			}
			admitConnections(database)
			s.wantCount(20*time.Second, s.notificationsDB, 1+workers, sentCount)
			s.wantQueuesEmpty()
			s.wantOneEmailEach(append(orders, first)...)
			s.wantNoDeadLetters()
		})
	}
}
