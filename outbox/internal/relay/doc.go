// Package relay is the engine of an outbox.Relay: it claims events, sends them, and records the
// answers.
//
// # The life of an event
//
// A claim makes a batch. Each of its events has one of these states:
//
//	          begun           no answer for SlowAfter, and its topic is silent
//	unsent ──────────► sent ───────────────► slow
//	   │ not sent       │ an answer, or none  │ the same
//	   │                │ in ConfirmTimeout   │
//	   └────────────────┴──────────┬──────────┘
//	                               ▼
//	                            decided ──────► recorded
//
// The decision is what becomes of the event, and of its topic. It depends on the outcome, and on
// the past of the event and its topic:
//
//	outcome      event      topic
//	confirmed    published  resumed
//	returned     halted     paused
//	busy         halted     paused     too many of its topic have no answer, or it is unreachable
//	refused      delayed    paused     by the 2nd of these three in a row; the try counts
//	closedAlone  delayed    paused     by the 50th of these three in a row; the try counts
//	lostAlone    delayed    paused     by the 2nd of these three; the tries count from the 10th on
//	invalid      failed     untried
//	noAnswer     delayed    unchanged  halted if this relay has paused it; an e-mail: counts
//	notSent      retried    untried    the session is left, or the publisher has ended
//	lost         retried    untried    the same, and other events had no answer either
//
// A delayed event is due after a pause of its own, a halted one when its topic's pause is over, and
// a retried one when its claim ends. A try that counts makes the event fail, if it is the tenth try
// at least, and if the first one that counts was GiveUp ago. A late confirm, of an event that is
// decided or recorded, is recorded too: the event is published.
//
// # Topics
//
// A paused topic is a row of the table outbox_topics, and no claim takes its events. When the pause
// is over, one of them is sent: the probe. If it is confirmed, the topic is resumed. If it pauses
// the topic again, that is for longer. If the topic is untried, the next probes are sent at once. A
// new event that is refused leaves it untried, too: the refusal may be about this event alone. There
// are 1, 2, 4 … probes at once, while they are answered (pace.go). So refused events do not hold up
// a good one behind them.
//
// Probes have a worker of their own, with a connection of its own, because RabbitMQ stops reading a
// whole connection when one queue does not take what was sent. For the same reason a worker whose
// connection answers nothing for SlowAfter gives its place to another one, and drains: it begins
// nothing more, and waits for late answers.
//
// # When something ends, or is away
//
//	the session     its worker begins nothing more. What was sent is lost, or lostAlone; what was not
//	                is notSent. After several were lost together, one is sent at first (pace.go)
//	a lease         nothing more of its claim is sent. Of what was sent, confirms are recorded. Once
//	                another relay may have claimed the events, nothing else is (store, fenceSQL)
//	the database    nothing is claimed. Decisions are written again, until they are recorded. Leases
//	                are not renewed, and end. Those of e-mails end at once, and after the outage no
//	                e-mail is claimed for 2 s: everybody can record what was sent (database.go)
//	Run's context   nothing more is begun or claimed. Answers are awaited for ShutdownTimeout. 2 s
//	                later the last statement ends, and Run returns (deadlines in relay.go)
//
// # The parts
//
//	worker     claims what is due, and starts a batch for each claim (worker.go, claim.go)
//	batch      the life of these events, in a goroutine of its own (batch.go, item.go)
//	silence    what happens when answers do not come (silence.go)
//	decide     the table above (decide.go), with the memory of topics and losses (topics.go)
//	sender     sends through one session, and sees what ends publishers (sender.go)
//	pace       how much is sent before the destination answers: a slow start (pace.go)
//	writer     calls one publisher, which may block (writer.go)
//	database   executes the statements of a worker, one at a time, each with a deadline (database.go)
//	leases     until when events may be sent; renewed each second (lease.go)
//	window     how much the batches of a worker have in flight, and their news for it (window.go)
//	late       confirms that come after the batch has given up waiting (late.go)
//	unanswered what a destination that answers one by one has not answered (unanswered.go)
//	reporter   counters, log lines and spans (report.go, counters.go)
//
// A worker has a session, a sender and a database of its own. It ends in one way only, whether its
// session is lost, another worker has its place, or Run ends: it begins nothing more, waits for its
// batches as long as there is time, and closes the publisher.
package relay
