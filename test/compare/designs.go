package main

import (
	"context"
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
	famous []string // "fault: figure": its best-known failures, and what it does right
	// certain are failures that every run shows, as "fault: figure": they need no luck. An absent
	// figure is an error.
	certain []string
	// outbox returns order, version and status of each row of the design's outbox.
	outbox string
	// patience is how long nothing may happen before the rest is called stuck. It is longer than
	// each lease and each delay of the design.
	patience time.Duration
	modules  []string // of a design of the module peers: the libraries, whose versions are shown
}

const (
	outboxOfDesigns = "SELECT order_id::text, version, status FROM outbox"
	outboxOfCursor  = `SELECT order_id::text, version, CASE WHEN o.seq > c.seq THEN 'pending' ELSE 'published' END AS status
		FROM outbox o, outbox_cursor c`
	outboxOfRiver = `SELECT args->'body'->>'order_id' AS order_id, (args->'body'->>'order_version')::int AS version,
		CASE WHEN state = 'completed' THEN 'published' WHEN state IN ('discarded', 'cancelled') THEN 'failed' ELSE 'pending' END AS status
		FROM river_job`
	outboxOfWatermill = `SELECT body->>'order_id' AS order_id, (body->>'order_version')::int AS version,
		CASE WHEN (transaction_id, "offset") > (last_processed_transaction_id, offset_acked) THEN 'pending' ELSE 'published' END AS status
		FROM watermill_events_to_forward m, watermill_offsets_events_to_forward,
		LATERAL (SELECT convert_from(decode(payload->>'payload', 'base64'), 'UTF8')::jsonb AS body) AS envelope`
	outboxOfProject = "SELECT aggregate_id AS order_id, version, status FROM outbox_status"
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

var designs = []design{
	{
		name: "commit-then-publish", side: orderSide,
		famous: []string{"kill-order-side: lost", "broker-restart: lost", "broker-outage: lost", "nothing-bound: lost", "database-restart: lost"},
	},
	{
		name: "publish-then-commit", side: orderSide,
		famous:  []string{"kill-order-side: phantom", "database-restart: phantom", "stalled-replica: phantom"},
		certain: []string{"memory-alarm: phantom"},
	},
	{
		name: "article-poller", side: orderSide,
		famous:  []string{"broker-restart: lost", "kill-order-side: stuck"},
		certain: []string{"broker-restart: buried", "no-fault: out of order"},
	},
	{
		name: "article-poller-confirms", side: orderSide,
		famous:  []string{"no-fault: out of order"},
		certain: []string{"nothing-bound: lost"},
	},
	{name: "mark-before-confirm", side: orderSide, famous: []string{"kill-order-side: lost"}},
	{
		name: "seq-cursor", side: orderSide, outbox: outboxOfCursor,
		famous: []string{"no-fault: lost", "memory-alarm: lost", "stalled-replica: stuck"},
	},
	{name: "listen-without-poll", side: orderSide, famous: []string{"broker-outage: stuck", "database-restart: stuck"}},
	{
		name: "leader-advisory-lock", side: orderSide,
		famous: []string{"memory-alarm: safe", "database-restart: safe", "stalled-replica: stuck"},
	},
	{
		name: "river", side: orderSide, outbox: outboxOfRiver, patience: riverPatience,
		famous:  []string{"no-fault: out of order", "kill-order-side: out of order", "broker-outage: out of order", "nothing-bound: out of order"},
		modules: []string{"github.com/riverqueue/river"},
	},
	{
		name: "watermill-forwarder", side: orderSide, outbox: outboxOfWatermill,
		famous: []string{"broker-restart: safe", "nothing-bound: lost", "stalled-replica: stuck"},
		modules: []string{
			"github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill-sql/v4",
			"github.com/ThreeDotsLabs/watermill-amqp/v3",
		},
	},
	{
		name: "library-recovery", side: consumerSide,
		famous: []string{"broker-restart: stuck", "broker-outage: stuck", "database-restart: repeated", "mail-slow: repeated"},
	},
	{
		name: "ack-first", side: consumerSide,
		famous:  []string{"kill-consumer: lost", "mail-slow: safe"},
		certain: []string{"mail-away: lost"},
	},
	{name: "inbox-other-transaction", side: consumerSide, famous: []string{"kill-consumer: lost", "mail-slow: lost", "mail-away: lost"}},
	{
		name: "retries-main-exchange", side: consumerSide,
		famous:  []string{"database-restart: repeated", "mail-slow: repeated", "mail-away: buried"},
		certain: []string{"second-consumer-service: repeated"},
	},
	{
		name: "nack-requeue", side: consumerSide,
		famous:  []string{"kill-consumer: repeated", "database-restart: repeated", "mail-slow: repeated"},
		certain: []string{"poison-message: stuck"},
	},
	{name: "email-in-transaction", side: consumerSide, famous: []string{"mail-slow: repeated"}},
	{name: thisProject, side: bothSides, outbox: outboxOfProject, patience: projectPatience},
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
}

func (r row) String() string { return r.design.name + "/" + r.fault.name }

// allRows returns each design under the faults that it is known for, and this project under all.
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
			r := row{design: d, fault: f}
			if d.name == thisProject || r.figure(d.famous) != "" || r.figure(d.certain) != "" {
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// mails reports whether the consumer of the row sends e-mails.
func (r row) mails() bool { return r.design.side&consumerSide != 0 }
