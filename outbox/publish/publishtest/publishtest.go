// Package publishtest has the tests that every publisher must pass, with the real server of its
// broker. They test all that a relay needs from a publisher.
package publishtest

import (
	"reflect"
	"testing"

	"example.com/transactional-outbox/outbox/publish"
)

// Broker is a real server, with functions that control it. It belongs to one test.
type Broker struct {
	// Connect opens a session, through the proxy that Cut and Silence control. It closes the
	// session when the test ends. The session does not reconnect after Cut.
	Connect func(t *testing.T) publish.Session
	// Destination gets messages with the topics order.created and order.cancelled. Received returns
	// them. No other test uses this destination.
	Destination string
	// NoListener is a message that no consumer gets, because of its topic or its destination. The
	// tests set the fields that are empty.
	NoListener publish.Message
	// Received waits until a consumer of Destination has got at least n messages. It returns all
	// messages since the test began, in the order in which the broker stored them. If they do not
	// come, it fails the test.
	Received func(t *testing.T, n int) []publish.Message

	// Refuse makes the server refuse messages, until undo is called.
	Refuse func(t *testing.T) (undo func())
	// Cut closes the connections of the sessions at once. The server keeps running.
	Cut func(t *testing.T)
	// Silence holds back the server's answers, until resume is called.
	Silence func(t *testing.T) (resume func())
	// Hold makes the server confirm no message like Held, and all others, until resume is called.
	Hold func(t *testing.T) (resume func())
	Held publish.Message
	// Restart kills the server and starts it again on the same data. It returns when the server
	// accepts connections.
	Restart func(t *testing.T)
	// Block makes the server ask its publishers to wait, until unblock is called. Some servers
	// tell a session only after it has sent a message.
	Block func(t *testing.T) (unblock func())

	// Invalid has messages that this kind of broker cannot carry. The key is the error that the
	// result must have. The tests set the fields that are empty.
	Invalid map[error]publish.Message

	// Impossible has the name of each field that is nil, and the reason: why this server cannot do
	// it. The tests that need the field are skipped with this reason.
	Impossible map[string]string
}

// Run tests the contract that package publish describes. Each test calls open for its own [Broker].
// The tests run one after another, so they can share a server.
func Run(t *testing.T, open func(t *testing.T) Broker) {
	for _, c := range clauses {
		t.Run(c.name, func(t *testing.T) {
			b := open(t)
			b.require(t, append(c.needs, "Connect", "Destination", "Received")...)
			c.test(contract{t, b})
		})
	}
}

// clause is one promise of the contract.
type clause struct {
	name  string
	needs []string // fields of Broker
	test  func(contract)
}

var clauses = []clause{
	{"confirmed messages arrive as they were", nil, contract.arriveAsTheyWere},
	{"a batch of 500 is confirmed and stored", nil, contract.bigBatch},
	{"a repeated batch is confirmed again", nil, contract.repeatedBatch},
	{"results are in the order of the messages", []string{"NoListener", "Invalid"}, contract.orderOfResults},
	{"what nobody listens to is returned and not stored", []string{"NoListener"}, contract.returned},
	{"invalid messages do not reach the server", []string{"Invalid"}, contract.invalid},
	{"after a refusal the publisher works", []string{"Refuse"}, contract.refused},
	{"each group stays in order", nil, contract.groupsInOrder},
	{"each group stays in order in a big batch", nil, contract.groupsInOrderInABigBatch},
	{"publishers of a session get their own results", []string{"Invalid"}, contract.ownResults},
	{"one message's answer does not hold back the others", []string{"Hold"}, contract.held},
	{"late answers are handed over", []string{"Silence"}, contract.late},
	{"what is not sent when its context ends is NotSent", []string{"Silence"}, contract.contextEnds},
	{"a cut in mid-batch loses nothing that was confirmed", []string{"Cut"}, contract.cut},
	{"a killed server has all that it confirmed", []string{"Restart"}, contract.killed},
	{"Close is safe twice", nil, contract.closeTwice},
	{"Close ends on a silent server, and answers", []string{"Silence"}, contract.closeSilent},
	{"Blocked is true while the server blocks", []string{"Block"}, contract.blocked},
}

// require checks the fields that a test needs. It skips the test if one of them is in Impossible,
// and fails it if one is nil without a reason.
func (b Broker) require(t *testing.T, fields ...string) {
	t.Helper()
	for name := range b.Impossible {
		if field := reflect.ValueOf(b).FieldByName(name); !field.IsValid() || !field.IsZero() {
			t.Fatalf("Impossible has the name %s: this is no field of Broker, or the field is not nil", name)
		}
	}
	for _, name := range fields {
		reason, impossible := b.Impossible[name]
		switch {
		case impossible:
			t.Skipf("%s: %s", name, reason)
		case reflect.ValueOf(b).FieldByName(name).IsZero():
			t.Fatalf("the field %s of Broker is nil, and Impossible has no reason for it", name)
		}
	}
}
