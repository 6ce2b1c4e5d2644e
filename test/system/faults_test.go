package system

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/servers"
)

// fault is something that goes wrong for a while and concerns every message.
type fault struct {
	// begin returns what mends it.
	begin func(*faultySystem) (mend func())
	// noticed is true when the service has met the fault.
	noticed func(*faultySystem) bool
	orders  int  // arrive meanwhile; default: manyOrders
	retried bool // for the service, the error of each message is its own
}

// faultySystem is a system whose notification-service reaches each server through a proxy.
type faultySystem struct {
	*system
	databaseProxy, brokerProxy, mailProxy *servers.Proxy
	running                               *service
	orders                                []amqp.Publishing // so far
}

const (
	manyOrders = 40
	// faultLasts is how long a fault goes on after the service has met it.
	faultLasts = 3 * time.Second
	// fewDeliveries is a limit that a fault must not reach.
	fewDeliveries = 5
)

const (
	notTaking    = "no messages are taken"
	toRetry      = "message waits for a retry"
	noMailServer = "no session with the mail server, trying again"
)

func logged(line string) func(*faultySystem) bool {
	return func(s *faultySystem) bool { return len(s.running.logLines(line)) > 0 }
}

// allPaused is true when the domains of all recipients are paused.
func (s *faultySystem) allPaused() bool {
	return queryValue[int](s.system, s.notificationsDB, pausedCount) >= len(shopDomains)
}

// waiting is true when all e-mails wait in the outbox.
func (s *faultySystem) waiting() bool {
	return queryValue[int](s.system, s.notificationsDB, waitingCount) >= manyOrders
}

// mailAnswers is a fault of a mail server that answers this to everybody.
func mailAnswers(a answers) fault {
	return fault{begin: func(s *faultySystem) func() {
		s.mail.answer(a)
		return s.mail.acceptAll
	}, noticed: (*faultySystem).allPaused}
}

// refusing and stalled are faults of the network before a server.
func refusing(proxy func(*faultySystem) *servers.Proxy, noticed func(*faultySystem) bool) fault {
	return fault{begin: func(s *faultySystem) func() {
		refuseConnections(proxy(s))
		return func() { admitConnections(proxy(s)) }
	}, noticed: noticed}
}

func stalled(proxy func(*faultySystem) *servers.Proxy, noticed func(*faultySystem) bool) fault {
	return fault{begin: func(s *faultySystem) func() {
		proxy(s).Stall()
		return proxy(s).Resume
	}, noticed: noticed}
}

func mailOf(s *faultySystem) *servers.Proxy     { return s.mailProxy }
func databaseOf(s *faultySystem) *servers.Proxy { return s.databaseProxy }

// broken is a database in which every write fails with a code of PostgreSQL.
func broken(code string) fault {
	return fault{begin: func(s *faultySystem) func() {
		s.breakTables(code)
		return s.mendTables
	}, noticed: logged(notTaking)}
}

func revoked(privilege string) func(s *faultySystem) func() {
	return func(s *faultySystem) func() {
		s.exec("REVOKE " + privilege + " FROM " + roleOf(notificationService))
		return func() { s.migrate(notificationService, s.notificationsRoles) } // it grants them
	}
}

// panicking is a release whose code panics for each message, until it is mended.
func panicking(at string) func(s *faultySystem) func() {
	return func(s *faultySystem) func() {
		s.running.stop()
		file, asked := filepath.Join(s.TempDir(), "bad"), s.mail.timesAsked()
		must(s.T, os.WriteFile(file, nil, 0o600))
		s.running = s.runWithCrashPoints(fmt.Sprint("DELIVERY_LIMIT=", fewDeliveries), "PANIC_AT="+at, "PANIC_WHILE="+file)
		s.running.awaitReadyz()
		return func() {
			if s.mail.timesAsked() != asked {
				s.Error("the mail server was asked")
			}
			must(s.T, os.Remove(file))
		}
	}
}

func locked(table string) func(s *faultySystem) func() {
	return func(s *faultySystem) func() { return s.lock(s.notificationsDB, table) }
}

var faults = map[string]fault{
	"the mail server is down":   refusing(mailOf, logged(noMailServer)),
	"the mail server is silent": stalled(mailOf, (*faultySystem).waiting),
	"454 at the dot":            mailAnswers(answers{dot: refusal(454, 4, 7, 0)}),
	"451 at RCPT":               mailAnswers(answers{rcpt: refusal(451, 4, 3, 0)}),
	"450 4.2.1 at RCPT":         mailAnswers(answers{rcpt: refusal(450, 4, 2, 1)}),
	"421 at RCPT":               mailAnswers(answers{rcpt: hangingUp}),
	"the end at RCPT":           mailAnswers(answers{rcpt: losing}),
	"554 5.7.1 at RCPT":         mailAnswers(answers{rcpt: refusal(554, 5, 7, 1)}),
	"553 5.1.8 of the sender":   mailAnswers(answers{rcpt: refusal(553, 5, 1, 8)}),
	"554 5.7.1 while earlier e-mails are still accepted": {begin: (*faultySystem).refuseWhileAccepting, noticed: (*faultySystem).allPaused},
	"the mail server is down, and the broker cuts":       {begin: (*faultySystem).cutAgainAndAgain, noticed: logged(noMailServer)},
	"two connections are allowed":                        {begin: (*faultySystem).allowTwoConnections, noticed: func(*faultySystem) bool { return true }},

	"the database refuses connections": refusing(databaseOf, logged(notTaking)),
	"the database is silent":           stalled(databaseOf, logged("cannot claim from the outbox")),
	"the database is read-only":        broken("25006"),
	"the disk is full":                 broken("53100"),
	"the role may not connect":         {begin: (*faultySystem).refuseRole, noticed: logged(notTaking)},
	"the role may not write the inbox": {begin: revoked("INSERT ON processed_messages"), noticed: logged(notTaking)},
	"the inbox is locked":              {begin: locked("processed_messages"), noticed: logged(notTaking)},

	"each template panics": {begin: panicking("email.composed"), noticed: (*faultySystem).allPaused},

	// A row of the inbox can be inserted, so these errors are the messages' own.
	"the role may not write the outbox": {begin: revoked("INSERT ON outbox_queue"), noticed: logged(toRetry), retried: true},
	"the outbox is locked":              {begin: locked("outbox_queue"), noticed: logged(toRetry), retried: true, orders: 3},
	"the handler panics":                {begin: panicking("effect.recorded"), noticed: logged(toRetry), retried: true},
	"the progress is locked":            {begin: locked("order_progress"), noticed: logged(toRetry), retried: true, orders: 3},
}

// TestP9AFaultLosesNothingAndHealsByItself publishes orders during each fault. After the mend all
// e-mails are sent, each one once. Until then nobody is asked more often than necessary.
func TestP9AFaultLosesNothingAndHealsByItself(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFaultySystem(t)
			mend := fault.begin(s)
			if fault.orders == 0 {
				fault.orders = manyOrders
			}
			s.publishOrders(newOrders(fault.orders)...)
			if !eventually(awaitTimeout, func() bool { return fault.noticed(s) }) {
				t.Fatal("the service does not meet the fault")
			}
			letTimePass(faultLasts)
			if asked := s.mail.timesAsked() - len(s.mail.accepted()); asked > 2*len(s.orders) {
				t.Errorf("the mail server was asked %d times in vain about %d e-mails", asked, len(s.orders))
			}

			mended := time.Now()
			mend()
			s.wantCount(awaitTimeout, s.notificationsDB, len(s.orders), sentCount)
			t.Logf("the last e-mail was sent %s after the mend", time.Since(mended).Round(time.Millisecond))
			s.wantOneEmailEach(s.orders...)
			s.wantQueuesEmpty()
			s.wantNothingFailed(s.running)
			if retried := outcomes([]*service{s.running}, "retried") > 0; retried != fault.retried {
				t.Errorf("messages were retried: %t, want %t", retried, fault.retried)
			}
		})
	}
}

func newFaultySystem(t *testing.T) *faultySystem {
	t.Helper()
	s := &faultySystem{system: newSystem(t)}
	var settings [3]string
	s.databaseProxy, settings[0] = s.system.databaseProxy()
	s.brokerProxy, settings[1] = s.system.brokerProxy(notificationService)
	s.mailProxy, settings[2] = s.system.mailProxy()
	running, first := s.startWarmConsumer(append(settings[:], fmt.Sprint("DELIVERY_LIMIT=", fewDeliveries))...)
	s.running, s.orders = running, []amqp.Publishing{first}
	running.mayLackRights = true // some of the faults take rights away
	return s
}

func (s *faultySystem) publishOrders(orders ...amqp.Publishing) {
	s.Helper()
	s.publish(orders...)
	s.orders = append(s.orders, orders...)
}

// refuseWhileAccepting lets the server accept two e-mails after it has begun to refuse everybody.
func (s *faultySystem) refuseWhileAccepting() (mend func()) {
	held := s.mail.holdDots(s.T, "@held.example")
	s.publishOrders(orderFor("a@held.example"), orderFor("b@held.example"))
	held.await(s.T, 2)
	s.mail.answer(answers{rcpt: refusal(554, 5, 7, 1)})
	s.publishOrders(newOrders(manyOrders)...)
	s.awaitCount(s.notificationsDB, len(shopDomains), pausedCount+" AND topic LIKE 'shop-%'")
	held.release()
	return s.mail.acceptAll
}

// cutAgainAndAgain cuts the sessions with the broker more often than a message may be delivered.
func (s *faultySystem) cutAgainAndAgain() (mend func()) {
	refuseConnections(s.mailProxy)
	s.publishOrders(newOrders(manyOrders)...)
	for range fewDeliveries + 1 {
		sessions := len(s.running.logLines("connected to the broker"))
		s.brokerProxy.Cut()
		if !eventually(awaitTimeout, func() bool { return len(s.running.logLines("connected to the broker")) >= sessions+2 }) {
			s.Fatal("the service does not connect again")
		}
	}
	return func() { admitConnections(s.mailProxy) }
}

// allowTwoConnections is a server that allows fewer connections than the service would open.
func (s *faultySystem) allowTwoConnections() (mend func()) {
	s.mail.places.Store(2)
	s.mailProxy.Cut()
	return func() {}
}

// refuseRole ends the sessions with the database, and refuses new ones. The role itself stays as it
// is, because all tests share it.
func (s *faultySystem) refuseRole() (mend func()) {
	name := queryValue[string](s.system, s.notificationsDB, "SELECT quote_ident(current_database())")
	s.exec("REVOKE CONNECT ON DATABASE " + name + " FROM " + roleOf(notificationService))
	s.endSessions()
	return func() { s.exec("GRANT CONNECT ON DATABASE " + name + " TO " + roleOf(notificationService)) }
}

// wantNothingFailed wants no dead letter and no failed e-mail.
func (s *system) wantNothingFailed(running *service) {
	s.Helper()
	s.wantNoDeadLetters()
	s.wantCount(0, s.notificationsDB, 0, failedCount)
	running.awaitMetric(`consumer_messages_total{outcome="dead_lettered"}`, 0)
}
