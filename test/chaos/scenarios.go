package main

import (
	"context"
	"fmt"
	"slices"

	"example.com/transactional-outbox/test/env/mailserver"
)

// scenario is load with a fault.
type scenario struct {
	name, description                   string
	build                               string   // an additional build of the services: crashing or wrongTime
	orderSettings, notificationSettings []string // additional settings of the services
	short                               bool     // part of SHORT=1
	// setUp adds servers that only some scenarios need, before the services start.
	setUp step
	// threeBrokers says that the scenario needs three brokers.
	threeBrokers bool
	// fault injects the fault. It returns when the fault is over.
	fault step
	// afterwards is what an operator does after the fault.
	afterwards step
}

type step = func(*system, context.Context) error

// scenarios need one database server and one broker.
var scenarios = []scenario{
	// Processes die at any instruction (P5, P6, P12).
	{
		name: "orders-sigkill", description: "order-service is killed at random times",
		fault: (*system).killOrders,
	},
	{
		name: "notifications-sigkill", description: "notification-service is killed at random times",
		short: true, fault: (*system).killNotifications,
	},
	{
		name: "orders-crash-points", description: "order-service kills itself at each crash point",
		build: crashing, fault: (*system).crashOrders,
	},
	{
		name: "notifications-crash-points", description: "notification-service kills itself at each crash point",
		build: crashing, fault: (*system).crashNotifications,
	},
	{
		name: "machine-vanished", description: "a consumer's machine vanishes during a transaction, and its connections stay open",
		fault: (*system).vanishMachine,
	},
	{
		name: "relay-stopped", description: "a relay is frozen with a claimed batch until after its lease, and wakes up",
		orderSettings: []string{"RELAY_CONFIRM_TIMEOUT=1s", fmt.Sprint("RELAY_LEASE=", shortLease)}, fault: (*system).freezeRelay,
	},
	{
		name: "clocks-apart", description: "the clocks of the replicas are hours apart, and relays are killed with claimed batches",
		build: wrongTime, orderSettings: shortestOrderMemory, notificationSettings: shortestNotificationMemory,
		fault: (*system).useWrongClocks,
	},

	// Processes are stopped (P12).
	{
		name: "sigterm", description: "all replicas are restarted one after the other",
		short: true, fault: (*system).restartOneByOne,
	},
	{
		name: "sigterm-while-mailing", description: "consumers are stopped while the mail server answers DATA after 12 s",
		fault: (*system).stopWhileMailing,
	},
	{
		name: "sigterm-hung-database", description: "replicas are stopped while the databases do not answer",
		fault: (*system).terminateWithHungDatabase,
	},
	{
		name: "sigterm-hung-broker", description: "replicas are stopped while the broker does not answer",
		fault: (*system).terminateWithHungBroker,
	},

	// The broker is away, silent, or blocks (P4, P10).
	{
		name: "broker-sigkill", description: "the broker is killed and started again",
		short: true, fault: (*system).killBroker,
	},
	{
		name: "broker-outage", description: "the broker is down for longer than every lease and retry delay",
		fault: (*system).refuseBroker,
	},
	{
		name: "broker-silent", description: "the network drops all packets to and from the broker",
		fault: (*system).stallBroker,
	},
	{
		name: "broker-alarm", description: "the broker's memory alarm blocks publishers, and one replica of each service is stopped",
		fault: (*system).stopDuringAlarm,
	},
	{
		name: "flapping", description: "the relays' connections are cut every two seconds while they send a backlog",
		short: true, setUp: (*system).prepareBacklog, orderSettings: slices.Concat(manySettings, giveUpSoon), fault: (*system).flap,
	},

	// One destination is away, full or silent (P3, P4).
	{
		name: "unroutable", description: "no queue is bound to the exchange for a time",
		short: true, fault: (*system).unbindAll,
	},
	{
		name: "queue-deleted", description: "the consumer's queue is deleted with its messages; the events are republished",
		fault: (*system).deleteQueue, afterwards: (*system).republish,
	},
	{
		name: "queue-full", description: "the consumer's queue refuses messages",
		fault: (*system).fillQueue, afterwards: (*system).requireSoonPublished,
	},
	{
		name: "one-queue-full", description: "one topic's queue refuses messages, with a backlog in front of the others",
		setUp: (*system).prepareBacklog, orderSettings: manySettings, fault: (*system).fillOneQueue,
	},
	{
		name: "one-queue-silent", description: "the process of one topic's queue is suspended, with a backlog in front of the others",
		setUp: (*system).prepareBacklog, orderSettings: manySettings, fault: (*system).silenceOneQueue,
	},

	// A database is away (P1, P2, P5, P6).
	{
		name: "postgres-sigkill", description: "all processes of PostgreSQL are killed",
		fault: (*system).killPostgres,
	},
	{
		name: "postgres-restart-while-mailing", description: "PostgreSQL is restarted while e-mails wait for the mail server's answer to DATA",
		fault: (*system).restartWhileMailing,
	},
	{
		name: "commit-reply-lost", description: "the reply to COMMIT is lost, so the outcome is unknown",
		short: true, fault: (*system).dropCommitReplies,
	},
	{
		name: "disk-full", description: "each write of the consumer fails with the error of a full disk (53100)",
		notificationSettings: []string{"RELAY_LEASE=1m"}, // longer than the fault: no e-mail is repeated
		fault:                (*system).refuseWrites,
	},
	{
		name: "restored", description: "both databases go back to a backup, as after a restore; an operator follows the runbook",
		orderSettings: []string{"RELAY_CONFIRM_TIMEOUT=10s", "RELAY_LEASE=20s"}, // longer than the backup takes
		fault:         (*system).restoreDatabases,
	},

	// Messages are bad, repeated, or cannot be copied (P5, P8, P9).
	{
		name: "duplicated-and-shuffled", description: "messages arrive three times, in random order",
		fault: (*system).shuffleMessages,
	},
	{
		name: "way-back-deleted", description: "the exchanges for dead letters and retries are deleted while messages fail",
		short: true, fault: (*system).deleteRetryPath,
	},
	{
		name: "copies-blocked", description: "a new consumer gets malformed messages while the memory alarm blocks dead letters",
		fault: (*system).blockDeadLetters,
	},
	{
		name: "retries-meet-nothing", description: "retries expire while the requeue exchange does not exist",
		fault: (*system).expireWithoutRequeue,
	},

	// The mail server refuses, is late, or hangs up (P6, P9).
	{
		name: "smtp-policy", description: "the mail server refuses everything: 454 after DATA; 421 and 554 5.7.1 at RCPT",
		fault: (*system).refuseByPolicy,
	},
	{
		name: "smtp-hangs-up", description: "the mail server refuses some recipients at RCPT, and closes the connection",
		fault: mailFaultOf(ofSome, mailserver.Fault{Code: 421, Enhanced: [3]int{4, 3, 2}}),
	},
	{
		name: "smtp-late", description: "the mail server does not answer DATA of one domain for a long time",
		fault: mailFaultOf(ofOneDomain, mailserver.Fault{HoldData: true}),
	},
	{
		name: "smtp-answers-lost", description: "for some recipients the connection breaks before the answer to each e-mail",
		fault: mailFaultOf(ofSome, mailserver.Fault{Drop: true}), afterwards: (*system).requireLateRepeats,
	},
}

// clusterScenarios need more than one machine: a cluster of brokers, or a database with a standby.
// They run with CLUSTER=1.
var clusterScenarios = []scenario{
	{
		name: "node-sigkill", description: "the one of three brokers that all services are connected to is killed, and started again later",
		threeBrokers: true, fault: (*system).killNode,
	},
	{
		name: "partition", description: "the broker that all services are connected to is cut off from the others, and pauses",
		threeBrokers: true, fault: (*system).partition,
	},
	{
		name: "failover-synchronous", description: "the primary is killed, its synchronous standby takes over, and the old primary comes back",
		setUp: (*system).startStandby, fault: (*system).failOverTwice,
	},
	{
		name: "standby-stalls", description: "the synchronous standby takes nothing for 10 s, clients repeat their requests, and then the primary is killed",
		notificationSettings: []string{"RELAY_LEASE=1m"}, // longer than the stall: no e-mail is repeated
		setUp:                (*system).startStandby, fault: (*system).failOverAfterStall,
	},
	{
		name: "old-primary-returns", description: "after a failover, the old primary is started again by mistake and takes writes",
		setUp: (*system).startStandby, fault: (*system).returnOldPrimary,
	},
	{
		name: "machine-of-database", description: "the primary's machine vanishes, and its synchronous standby takes over",
		setUp: (*system).startStandby, fault: (*system).vanishDatabase,
	},
	{
		name: "pgbouncer", description: "PgBouncer in transaction mode is killed and started again, and its connections are reset",
		setUp: (*system).startPooler, orderSettings: []string{"OUTBOX_NOTIFY=false"}, fault: (*system).breakPooler,
	},
}
