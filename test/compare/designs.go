package main

import (
	"context"
	"slices"
	"time"
)

// side is the part of the system that a design implements, or that a fault can touch.
type side int

const (
	orderSide side = 1 << iota
	consumerSide
	bothSides = orderSide | consumerSide
)

// design is one design. Its programs are in the folder designs, this project's are its services.
type design struct {
	name   string
	side   side
	famous []string // "fault: figure": its best-known failures
	// certain are failures that every run shows, as "fault: figure": they need no luck. SHORT=1 runs
	// these faults, and an absent figure is an error.
	certain []string
	// outbox returns order, version and status of each row of the design's outbox.
	outbox string
	// patience is how long nothing may happen before the rest is called stuck. It is longer than
	// each lease and each delay of the design.
	patience time.Duration
	work     string   // what a person has to do after the failures
	modules  []string // of a design of the module peers: the libraries, whose versions are shown
}

const (
	outboxOfDesigns = "SELECT order_id::text, version, status FROM outbox"
	outboxOfCursor  = `SELECT order_id::text, version, CASE WHEN o.seq > c.seq THEN 'pending' ELSE 'published' END
		FROM outbox o, outbox_cursor c`
	outboxOfRiver = `SELECT args->'body'->>'order_id', (args->'body'->>'order_version')::int,
		CASE WHEN state = 'completed' THEN 'published' WHEN state IN ('discarded', 'cancelled') THEN 'failed' ELSE 'pending' END
		FROM river_job`
	outboxOfWatermill = `SELECT body->>'order_id', (body->>'order_version')::int,
		CASE WHEN (transaction_id, "offset") > (last_processed_transaction_id, offset_acked) THEN 'pending' ELSE 'published' END
		FROM watermill_events_to_forward m, watermill_offsets_events_to_forward,
		LATERAL (SELECT convert_from(decode(payload->>'payload', 'base64'), 'UTF8')::jsonb AS body) AS envelope`
	outboxOfProject = "SELECT aggregate_id, version, status FROM outbox_status"
)

const (
	usualPatience = 10 * time.Second
	// projectPatience is longer than this project's pause of an e-mail whose answer was lost, a
	// minute.
	projectPatience = 75 * time.Second
	// riverPatience is longer than River needs for a job whose process has died: 21 s until there is
	// another leader, 9 s until the job is called stuck, and 30 s until the leader looks for such
	// jobs.
	riverPatience = 70 * time.Second
)

const thisProject = "this-project"

// Work that a person has to do.
const (
	compareAll  = "compare all orders with what the other services have, and write the missing events by hand"
	undo        = "find the orders that do not exist, and undo in each other service what they caused"
	resetRows   = "find the rows that wait for ever, be sure that nobody works on them, reset them, restart the relay"
	resetFailed = "find out which failed rows an outage made, and set them to pending"
	replayDead  = "find out which dead letters are good messages, and publish each of them again"
	restart     = "notice that it stands still, and restart the process"
	removeBad   = "find the message that comes again and again, and take it out of the queue by hand"
	anyOrder    = "none, if each consumer can take the events of an order in any order"
	noRepair    = "nothing can be repaired: customers have e-mails twice"
	noWork      = "none"
)

var designs = []design{
	{name: "commit-then-publish", side: orderSide, famous: []string{"kill-order-side: lost", "broker-outage: lost"}, work: compareAll},
	{name: "publish-then-commit", side: orderSide, famous: []string{"kill-order-side: phantom", "database-restart: phantom"}, certain: []string{"memory-alarm: phantom"}, work: undo},
	{name: "publish-inside-transaction", side: orderSide, famous: []string{"kill-order-side: phantom", "database-restart: phantom"}, work: undo},
	{name: "article-poller", side: orderSide, famous: []string{"broker-restart: lost", "kill-order-side: stuck"}, certain: []string{"broker-restart: buried", "no-fault: out of order"}, work: resetRows + "; " + resetFailed + "; " + compareAll},
	{name: "article-poller-confirms", side: orderSide, famous: []string{"nothing-bound: lost"}, certain: []string{"nothing-bound: lost"}, work: compareAll},
	{name: "mark-before-confirm", side: orderSide, famous: []string{"kill-order-side: lost"}, work: compareAll},
	{name: "seq-cursor", side: orderSide, famous: []string{"no-fault: lost"}, outbox: outboxOfCursor, work: compareAll},
	{name: "listen-without-poll", side: orderSide, famous: []string{"database-restart: stuck"}, work: resetRows},
	{name: "leader-advisory-lock", side: orderSide, famous: []string{"stalled-replica: stuck"}, work: restart},
	{
		name: "river", side: orderSide, famous: []string{"no-fault: out of order"}, outbox: outboxOfRiver, patience: riverPatience,
		work: anyOrder, modules: []string{"github.com/riverqueue/river"},
	},
	{
		name: "watermill-forwarder", side: orderSide, famous: []string{"nothing-bound: lost"}, outbox: outboxOfWatermill, work: compareAll,
		modules: []string{
			"github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill-sql/v4",
			"github.com/ThreeDotsLabs/watermill-amqp/v3",
		},
	},
	{name: "library-recovery", side: consumerSide, famous: []string{"broker-outage: stuck"}, work: restart},
	{name: "ack-first", side: consumerSide, famous: []string{"kill-consumer: lost", "mail-away: lost"}, certain: []string{"mail-away: lost"}, work: compareAll},
	{name: "inbox-other-transaction", side: consumerSide, famous: []string{"mail-away: lost"}, work: compareAll},
	{name: "retries-main-exchange", side: consumerSide, famous: []string{"second-consumer-service: repeated", "mail-away: buried"}, certain: []string{"second-consumer-service: repeated"}, work: replayDead},
	{name: "nack-requeue", side: consumerSide, famous: []string{"poison-message: stuck"}, certain: []string{"poison-message: stuck"}, work: removeBad},
	{name: "email-in-transaction", side: consumerSide, famous: []string{"mail-slow: repeated"}, work: noRepair},
	{name: thisProject, side: bothSides, outbox: outboxOfProject, patience: projectPatience, work: noWork},
}

// otherServiceFault is the fault under which another service has a queue.
const otherServiceFault = "second-consumer-service"

// fault is one fault.
type fault struct {
	name, description string
	touches           side
	inject            func(*system, context.Context) error
}

var faults = []fault{
	{"no-fault", "only the load, for 8 s", bothSides, (*system).noFault},
	{"kill-order-side", "processes of the order side are killed 8 times", orderSide, (*system).killOrderSide},
	{"kill-consumer", "the consumer is killed 8 times", consumerSide, (*system).killConsumer},
	{"broker-restart", "the broker hangs for half a second, is killed, and starts again", bothSides, (*system).restartBroker},
	{"broker-outage", "the broker cannot be reached for 8 s", bothSides, (*system).cutBroker},
	{"memory-alarm", "the broker's memory alarm blocks publishers for 8 s", bothSides, (*system).raiseMemoryAlarm},
	{"nothing-bound", "no queue is bound for 4 s: the consumer is being installed again", orderSide, (*system).unbindAll},
	{"database-restart", "PostgreSQL is killed and started again, three times", bothSides, (*system).restartDatabase},
	{failoverFault, "PostgreSQL is killed, and its synchronous standby takes over after 2 s", bothSides, (*system).failOver},
	{"stalled-replica", "one of two order sides is stopped (SIGSTOP) for longer than any lease, and continues", orderSide, (*system).stallReplica},
	{"poison-message", "20 messages arrive that cannot be read", consumerSide, (*system).publishPoison},
	{otherServiceFault, "another service has a queue, and 30 e-mails are refused for now", consumerSide, (*system).refuseForOther},
	{"mail-slow", "the mail server accepts e-mails, and answers after 6 s", consumerSide, (*system).slowMail},
	{"mail-away", "the mail server cannot be reached for 8 s", consumerSide, (*system).cutMail},
}

// row is one design under one fault.
type row struct {
	design design
	fault  fault
	seed   uint64
}

func (r row) String() string { return r.design.name + "/" + r.fault.name }

func allRows() (rows []row) {
	for _, d := range designs {
		if d.patience == 0 {
			d.patience = usualPatience
		}
		if d.outbox == "" {
			d.outbox = outboxOfDesigns
		}
		if d.side == consumerSide {
			d.outbox = outboxOfProject
		}
		for _, f := range faults {
			if d.side&f.touches != 0 {
				rows = append(rows, row{design: d, fault: f})
			}
		}
	}
	return rows
}

// shortForProject are this project's rows with SHORT=1: the hardest faults.
var shortForProject = []string{"kill-order-side", "broker-restart", "nothing-bound", failoverFault, "mail-away"}

// short reports whether SHORT=1 runs the row.
func (r row) short() bool {
	return r.figure(r.design.certain) != "" || r.design.name == thisProject && slices.Contains(shortForProject, r.fault.name)
}

// mails reports whether the consumer of the row sends e-mails.
func (r row) mails() bool { return r.design.side&consumerSide != 0 }
