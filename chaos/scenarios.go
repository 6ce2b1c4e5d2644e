package main

import "fmt"

// scenarios are all, the most important first.
var scenarios = []scenario{
	{
		name: "orders-sigkill", does: "order-service is killed at random moments",
		fault: (*system).killOrders,
	},
	{
		name: "notifications-sigkill", does: "notification-service is killed at random moments",
		short: true, fault: (*system).killNotifications,
	},
	{
		name: "orders-crash-points", does: "order-service kills itself at each named point",
		build: crashing, fault: (*system).crashOrders,
	},
	{
		name: "notifications-crash-points", does: "notification-service kills itself at each named point",
		build: crashing, fault: (*system).crashNotifications,
	},
	{
		name: "broker-sigkill", does: "the broker is killed, and starts again",
		short: true, brokerOnly: true, fault: (*system).killBroker,
	},
	{
		name: "broker-restart", does: "the broker is restarted in order",
		brokerOnly: true, fault: (*system).restartBroker,
	},
	{
		name: "broker-outage", does: "the broker is away for longer than all leases and retries",
		brokerOnly: true, fault: (*system).refuseBroker,
	},
	{
		name: "broker-silent", does: "the network swallows all packets to and from the broker",
		brokerOnly: true, fault: (*system).silenceBroker,
	},
	{
		name: "broker-reset", does: "connections to the broker are reset, again and again",
		brokerOnly: true, fault: (*system).resetBroker,
	},
	{
		name: "broker-reset-then-sigkill", does: "consumers lose the broker with messages in hand, come back, and are killed with those and new ones",
		fault: (*system).resetThenKill,
	},
	{
		name: "broker-alarm", does: "the broker's memory alarm blocks all publishers, and a replica of each service is asked to end",
		brokerOnly: true, fault: (*system).alarmMemory,
	},
	{
		name: "disk-alarm", does: "the broker's disk alarm blocks all publishers, and a replica of each service is asked to end",
		brokerOnly: true, fault: (*system).alarmDisk,
	},
	{
		name: "postgres-restart", does: "PostgreSQL is restarted, by its fast shutdown",
		fault: (*system).restartPostgres,
	},
	{
		name: "postgres-restart-while-mailing", does: "PostgreSQL is restarted while the mail server has e-mails and does not say so yet",
		short: true, fault: (*system).restartWhileMailing,
	},
	{
		name: "postgres-immediate", does: "PostgreSQL is stopped by its immediate shutdown, and recovers",
		fault: (*system).quitPostgres,
	},
	{
		name: "postgres-sigkill", does: "all processes of PostgreSQL are killed",
		fault: (*system).killPostgres,
	},
	{
		name: "postgres-terminate", does: "backends are terminated in mid-transaction",
		fault: (*system).terminateBackends,
	},
	{
		name: "commit-reply-lost", does: "the reply to COMMIT is lost: nobody knows whether it happened",
		short: true, fault: (*system).loseCommitReplies,
	},
	{
		name: "table-locked", does: "orders, and then the outbox, are locked for longer than a request may take",
		fault: (*system).lockTables,
	},
	{
		name: "database-vanished", does: "the network swallows order-service's connections to its database; new ones work",
		fault: (*system).loseDatabase,
	},
	{
		name: "database-read-only", does: "the consumer's database answers, and takes nothing",
		brokerOnly: true, fault: (*system).makeReadOnly,
	},
	{
		name: "disk-full", does: "each write of the consumer ends as if its database's disk were full (53100)",
		brokerOnly: true, fault: (*system).fillDisk,
	},
	{
		name: "unroutable", does: "no queue is bound to the exchange for a while",
		short: true, brokerOnly: true, fault: (*system).bindNobody,
	},
	{
		name: "queue-deleted", does: "the consumer's queue is deleted with all in it; the events are republished",
		brokerOnly: true, fault: (*system).deleteQueue, afterwards: (*system).republish,
	},
	{
		name: "exchange-deleted", does: "the exchange is deleted with all bindings; the events are republished",
		brokerOnly: true, fault: (*system).deleteExchange, afterwards: (*system).republish,
	},
	{
		name: "binding-deleted", does: "a binding of the consumer's queue is deleted; the events are republished",
		brokerOnly: true, fault: (*system).deleteBinding, afterwards: (*system).republish,
	},
	{
		name: "way-back-deleted", does: "dead-letter queue, dead-letter and retry exchanges are deleted while they are needed",
		short: true, brokerOnly: true, fault: (*system).deleteWayBack,
	},
	{
		name: "dead-letters-forbidden", does: "the consumers lose the permission to publish dead letters, while there are some",
		brokerOnly: true, fault: (*system).forbidDeadLetters,
	},
	{
		name: "copies-blocked", does: "a fresh consumer meets bad messages while the memory alarm blocks their copies",
		short: true, fault: (*system).blockCopies,
	},
	{
		name: "retry-queue-full", does: "the retry queues refuse messages, while a dozen fail for now",
		notifications: longDelays, brokerOnly: true, fault: (*system).fillRetryQueues,
	},
	{
		name: "killer-message", does: "a message that no Go client can read ends each connection that it is delivered on",
		fault: (*system).killConnections,
	},
	{
		name: "retries-meet-nothing", does: "retries expire while the exchange through which they return is gone",
		brokerOnly: true, fault: (*system).expireIntoNowhere,
	},
	{
		name: "queue-full", does: "the consumer's queue refuses messages",
		orders: []string{"RELAY_MAX_ATTEMPTS=1000"}, brokerOnly: true, fault: (*system).fillQueue, afterwards: (*system).countRefusals,
	},
	{
		name: "queue-limit-lifted", does: "the consumer's queue refuses messages, until an operator lifts its limit",
		orders: []string{"RELAY_MAX_ATTEMPTS=1000"}, brokerOnly: true, fault: (*system).liftLimit, afterwards: (*system).countRefusals,
	},
	{
		name: "relay-stopped", does: "a relay with a batch in hand is frozen beyond its lease, and wakes up",
		orders: []string{"RELAY_CONFIRM_TIMEOUT=1s", fmt.Sprint("RELAY_LEASE=", shortLease)}, fault: (*system).freezeRelay,
	},
	{
		name: "machine-vanished", does: "a consumer's machine is gone in mid-transaction, without a goodbye: nobody tells the database",
		fault: (*system).loseMachine,
	},
	{
		name: "five-relays", does: "five relays race for the same events, in tiny batches",
		short: true, orders: []string{"RELAY_BATCH_SIZE=3", "RELAY_POLL_INTERVAL=10ms"}, brokerOnly: true, fault: (*system).raceRelays,
	},
	{
		name: "duplicated-and-shuffled", does: "messages arrive three times, and in any order",
		fault: (*system).shuffle,
	},
	{
		name: "smtp-down", does: "the mail server refuses connections",
		brokerOnly: true, fault: (*system).refuseMail,
	},
	{
		name: "smtp-slow", does: "the mail server takes seconds for each e-mail",
		brokerOnly: true, fault: (*system).slowMail,
	},
	{
		name: "smtp-not-now", does: "the mail server refuses e-mails for now (451)",
		brokerOnly: true, fault: (*system).deferMail,
	},
	{
		name: "smtp-rejecting", does: "the mail server rejects some recipients (550 5.1.1); the dead letters are replayed, some in vain",
		brokerOnly: true, fault: (*system).rejectMail, afterwards: (*system).replayRefused,
	},
	{
		name: "smtp-drops-after-data", does: "the mail server takes e-mails, and the connection breaks before it says so",
		brokerOnly: true, fault: (*system).dropMail,
	},
	{
		name: "smtp-late", does: "the mail server answers 25 s after the dot",
		slowSenders: true, brokerOnly: true, fault: (*system).answerLate,
	},
	{
		name: "smtp-throttled", does: "the mail server takes a few e-mails a second, and refuses the others (421, 451 4.7.1)",
		brokerOnly: true, fault: (*system).throttleMail,
	},
	{
		name: "smtp-policy", does: "the mail server refuses everybody: 454 at the dot, 421, 451 and 554 5.7.1 at RCPT",
		brokerOnly: true, fault: (*system).refuseByPolicy,
	},
	{
		name: "sigterm", does: "all replicas are restarted in order, one after the other",
		short: true, fault: (*system).roll,
	},
	{
		name: "sigterm-twice", does: "replicas get a second SIGTERM while they finish their work",
		fault: (*system).terminateTwice,
	},
	{
		name: "sigterm-hung-broker", does: "replicas are asked to end while the broker does not answer",
		fault: (*system).terminateWithHungBroker,
	},
	{
		name: "sigterm-hung-database", does: "replicas are asked to end while the databases do not answer",
		fault: (*system).terminateWithHungDatabase,
	},
	{
		name: "clocks-apart", does: "the clocks of the replicas are hours apart, and relays die with batches in hand",
		build: wrongTime, orders: shortestOrderMemory, notifications: shortestNotificationMemory,
		fault: (*system).setClocks,
	},
	{
		name: "time-zones", does: "each process and each database is in another time zone, and a relay dies",
		short: true, fault: (*system).travel,
	},
	{
		name: "idle-transaction", does: "a forgotten transaction pins the old rows of the outbox",
		brokerOnly: true, fault: (*system).pinRows,
	},
	{
		name: "slow-network", does: "every packet to the broker and the databases takes its time",
		fault: (*system).slowNetwork,
	},
}
