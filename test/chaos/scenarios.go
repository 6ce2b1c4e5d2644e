package main

import (
	"fmt"
	"slices"
	"time"
)

// scenarios lists all scenarios, the most important first.
var scenarios = []scenario{
	{
		name: "orders-sigkill", description: "order-service is killed at random times",
		fault: (*system).killOrders,
	},
	{
		name: "notifications-sigkill", description: "notification-service is killed at random times",
		short: true, fault: (*system).killNotifications,
	},
	{
		name: "notifications-sigkill-backlog", description: "notification-service is killed while all its connections send a backlog of e-mails",
		notificationSettings: []string{"MAIL_CONNECTIONS=8", "RELAY_WINDOW=64"}, fault: (*system).killWhileCatchingUp,
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
		name: "broker-sigkill", description: "the broker is killed and started again",
		short: true, brokerOnly: true, fault: (*system).killBroker,
	},
	{
		name: "broker-restart", description: "the broker is stopped and started again",
		brokerOnly: true, fault: (*system).restartBroker,
	},
	{
		name: "broker-outage", description: "the broker is down for longer than every lease and retry delay",
		brokerOnly: true, fault: (*system).refuseBroker,
	},
	{
		name: "broker-silent", description: "the network drops all packets to and from the broker",
		brokerOnly: true, fault: (*system).stallBroker,
	},
	{
		name: "broker-reset", description: "connections to the broker are reset repeatedly",
		brokerOnly: true, fault: (*system).resetBroker,
	},
	{
		name: "broker-reset-then-sigkill", description: "consumers lose the broker while they process messages, reconnect, and are killed",
		fault: (*system).resetThenKill,
	},
	{
		name: "broker-alarm", description: "the broker's memory alarm blocks publishers, and one replica of each service is stopped",
		brokerOnly: true, fault: (*system).raiseMemoryAlarm,
	},
	{
		name: "disk-alarm", description: "the broker's disk alarm blocks publishers, and one replica of each service is stopped",
		brokerOnly: true, fault: (*system).raiseDiskAlarm,
	},
	{
		name: "postgres-restart", description: "PostgreSQL is restarted with a fast shutdown",
		fault: (*system).restartPostgres,
	},
	{
		name: "postgres-restart-while-mailing", description: "PostgreSQL is restarted while e-mails wait for the mail server's answer to DATA",
		short: true, fault: (*system).restartWhileMailing,
	},
	{
		name: "postgres-immediate", description: "PostgreSQL is stopped with an immediate shutdown, and recovers",
		fault: (*system).stopPostgresImmediately,
	},
	{
		name: "postgres-sigkill", description: "all processes of PostgreSQL are killed",
		fault: (*system).killPostgres,
	},
	{
		name: "postgres-terminate", description: "backends are terminated during transactions",
		fault: (*system).terminateBackends,
	},
	{
		name: "commit-reply-lost", description: "the reply to COMMIT is lost, so the outcome is unknown",
		short: true, fault: (*system).dropCommitReplies,
	},
	{
		name: "table-locked", description: "the tables of orders and outbox are locked for longer than a request may take",
		fault: (*system).lockTables,
	},
	{
		name: "database-vanished", description: "order-service's connections to its database freeze; new ones work",
		fault: (*system).freezeDatabaseConnections,
	},
	{
		name: "consumers-database-away", description: "the consumer's database refuses connections, and then it is silent",
		brokerOnly: true, fault: (*system).loseDatabase,
	},
	{
		name: "database-read-only", description: "each write of the consumer fails as on a read-only server (25006), for two minutes",
		brokerOnly: true, fault: refuseWrites("25006", 2*time.Minute),
	},
	{
		name: "disk-full", description: "each write of the consumer fails with the error of a full disk (53100)",
		brokerOnly: true, fault: refuseWrites("53100", unwritableTime),
	},
	{
		name: "notifications-table-locked", description: "the consumer's tables are locked for longer than a transaction waits",
		brokerOnly: true, fault: (*system).lockConsumersTables,
	},
	{
		name: "privilege-lost", description: "the consumer's role loses its privileges on one table after the other",
		brokerOnly: true, fault: (*system).revokePrivileges,
	},
	{
		name: "some-orders-fail", description: "the consumer's messages about one of three orders fail for longer than all retry delays",
		short: true, brokerOnly: true, fault: (*system).failOrders,
	},
	{
		name: "unroutable", description: "no queue is bound to the exchange for a time",
		short: true, brokerOnly: true, fault: (*system).unbindAll,
	},
	{
		name: "queue-deleted", description: "the consumer's queue is deleted with its messages; the events are republished",
		brokerOnly: true, fault: (*system).deleteQueue, afterwards: (*system).republish,
	},
	{
		name: "exchange-deleted", description: "the exchange is deleted with all bindings; the events are republished",
		brokerOnly: true, fault: (*system).deleteExchange, afterwards: (*system).republish,
	},
	{
		name: "binding-deleted", description: "a binding of the consumer's queue is deleted; the events are republished",
		brokerOnly: true, fault: (*system).deleteBinding, afterwards: (*system).republish,
	},
	{
		name: "way-back-deleted", description: "the exchanges for dead letters and retries are deleted while messages fail",
		short: true, brokerOnly: true, fault: (*system).deleteRetryPath,
	},
	{
		name: "dead-letters-forbidden", description: "the consumers lose the permission to publish dead letters while messages fail",
		brokerOnly: true, fault: (*system).forbidDeadLetters,
	},
	{
		name: "copies-blocked", description: "a new consumer gets malformed messages while the memory alarm blocks dead letters",
		short: true, fault: (*system).blockDeadLetters,
	},
	{
		name: "retry-queue-full", description: "the retry queues refuse messages while a dozen messages fail temporarily",
		notificationSettings: longDelays, brokerOnly: true, fault: (*system).fillRetryQueues,
	},
	{
		name: "killer-message", description: "a message that the Go client cannot decode ends each connection that delivers it",
		fault: (*system).killConnections,
	},
	{
		name: "retries-meet-nothing", description: "retries expire while the requeue exchange does not exist",
		brokerOnly: true, fault: (*system).expireWithoutRequeue,
	},
	{
		name: "queue-full", description: "the consumer's queue refuses messages",
		brokerOnly: true, fault: (*system).fillQueue, afterwards: (*system).requireSoonPublished,
	},
	{
		name: "queue-limit-lifted", description: "the consumer's queue refuses messages until an operator removes its limit",
		brokerOnly: true, fault: (*system).liftLimit, afterwards: (*system).requireSoonPublished,
	},
	{
		name: "one-queue-silent", description: "the process of one topic's queue is suspended, with a backlog in front of the others",
		short: true, setUp: (*system).prepareBacklog, orderSettings: manySettings, brokerOnly: true, fault: (*system).silenceOneQueue,
	},
	{
		name: "many-queues-silent", description: "one-queue-silent with twice as many topics as a relay has workers",
		setUp: (*system).prepareBacklog, orderSettings: manySettings, brokerOnly: true, fault: (*system).silenceManyQueues,
	},
	{
		name: "one-queue-full", description: "one topic's queue refuses messages, with a backlog in front of the others",
		setUp: (*system).prepareBacklog, orderSettings: manySettings, brokerOnly: true, fault: (*system).fillOneQueue,
	},
	{
		name: "one-topic-unroutable", description: "no queue is bound for one topic, with a backlog in front of the others",
		setUp: (*system).prepareBacklog, orderSettings: manySettings, brokerOnly: true, fault: (*system).bindTooLate,
	},
	{
		name: "publishing-forbidden", description: "the relays lose the permission to publish, so each event closes the channel",
		setUp: (*system).prepareBacklog, orderSettings: slices.Concat(manySettings, quickRetries), brokerOnly: true, fault: (*system).forbidPublishing,
	},
	{
		name: "one-topic-forbidden", description: "the relays lose the permission to publish one topic",
		setUp: (*system).prepareBacklog, orderSettings: slices.Concat(manySettings, quickRetries), brokerOnly: true, fault: (*system).forbidTopic,
	},
	{
		name: "poison-event", description: "the broker closes the channel for one event of a thousand",
		setUp: (*system).prepareBacklog, orderSettings: manySettings, brokerOnly: true, fault: (*system).poisonOneOfMany,
	},
	{
		name: "thirty-bad-events", description: "the broker closes the channel for thirty events in front of a good one of their topic",
		setUp: (*system).prepareBacklog, orderSettings: manySettings, brokerOnly: true, fault: (*system).putBadEventsFirst,
	},
	{
		name: "flapping", description: "the relays' connections are cut every two seconds while they send a backlog",
		short: true, setUp: (*system).prepareBacklog, orderSettings: slices.Concat(manySettings, giveUpSoon), brokerOnly: true, fault: (*system).flap,
	},
	{
		name: "relay-stopped", description: "a relay is frozen with a claimed batch until after its lease, and wakes up",
		orderSettings: []string{"RELAY_CONFIRM_TIMEOUT=1s", fmt.Sprint("RELAY_LEASE=", shortLease)}, fault: (*system).freezeRelay,
	},
	{
		name: "machine-vanished", description: "a consumer's machine vanishes during a transaction, and its connection stays open",
		fault: (*system).vanishMachine,
	},
	{
		name: "five-relays", description: "five relays compete for the same events in small batches",
		short: true, orderSettings: []string{"RELAY_WINDOW=3", "RELAY_POLL_INTERVAL=10ms"}, brokerOnly: true, fault: (*system).runFiveRelays,
	},
	{
		name: "duplicated-and-shuffled", description: "messages arrive three times, in random order",
		fault: (*system).shuffleMessages,
	},
	{
		name: "smtp-down", description: "the mail server refuses connections",
		brokerOnly: true, fault: (*system).refuseMailConnections,
	},
	{
		name: "smtp-down-broker-reset", description: "the consumers' connections to the broker are reset 51 times while the mail server is down",
		brokerOnly: true, fault: (*system).cutBrokerWhileMailIsDown,
	},
	{
		name: "smtp-slow", description: "the mail server takes seconds for each e-mail",
		brokerOnly: true, fault: (*system).delayMail,
	},
	{
		name: "smtp-not-now", description: "the mail server refuses e-mails temporarily (451)",
		brokerOnly: true, fault: (*system).deferMail,
	},
	{
		name: "smtp-rejecting", description: "the mail server rejects some recipients (550 5.1.1); the failed e-mails are replayed",
		brokerOnly: true, fault: (*system).rejectMail, afterwards: (*system).replayRejected,
	},
	{
		name: "smtp-answers-lost", description: "for some recipients the connection breaks before the answer to each e-mail",
		brokerOnly: true, fault: (*system).loseMailAnswers,
	},
	{
		name: "smtp-hangs-up", description: "the mail server closes the connection at some recipients (no answer, and 421), while consumers restart",
		brokerOnly: true, fault: (*system).hangUp,
	},
	{
		name: "smtp-late", description: "the mail server answers DATA after 25 s",
		brokerOnly: true, fault: (*system).delayMailAnswers,
	},
	{
		name: "smtp-throttled", description: "the mail server accepts a few e-mails per second and refuses the others (421, 451 4.7.1)",
		brokerOnly: true, fault: (*system).throttleMail,
	},
	{
		name: "smtp-policy", description: "the mail server refuses everything: 454 after DATA; 421, 451, 554 5.7.1 and 550 5.1.8 at RCPT",
		brokerOnly: true, fault: (*system).refuseByPolicy,
	},
	{
		name: "smtp-few-connections", description: "the mail server allows fewer connections than the services open",
		brokerOnly: true, fault: (*system).allowFewerConnections,
	},
	{
		name: "domain-not-now", description: "3, 12 and 50 orders whose domain refuses e-mails (450 4.1.2), and then a quarter of all domains",
		short: true, brokerOnly: true, fault: (*system).deferOneDomain,
	},
	{
		name: "domain-slow", description: "16 orders whose domain answers after 45 s",
		brokerOnly: true, fault: (*system).slowDownOneDomain,
	},
	{
		name: "sigterm-while-mailing", description: "consumers are stopped while the mail server answers DATA after 12 s",
		short: true, brokerOnly: true, fault: (*system).stopWhileMailing,
	},
	{
		name: "sigterm", description: "all replicas are restarted one after the other",
		short: true, fault: (*system).restartOneByOne,
	},
	{
		name: "sigterm-twice", description: "replicas get a second SIGTERM while they stop",
		fault: (*system).terminateTwice,
	},
	{
		name: "sigterm-hung-broker", description: "replicas are stopped while the broker does not answer",
		fault: (*system).terminateWithHungBroker,
	},
	{
		name: "sigterm-hung-database", description: "replicas are stopped while the databases do not answer",
		fault: (*system).terminateWithHungDatabase,
	},
	{
		name: "clocks-apart", description: "the clocks of the replicas are hours apart, and relays are killed with claimed batches",
		build: wrongTime, orderSettings: shortestOrderMemory, notificationSettings: shortestNotificationMemory,
		fault: (*system).useWrongClocks,
	},
	{
		name: "time-zones", description: "each process and each database has another time zone, and relays are killed",
		short: true, fault: (*system).changeTimeZones,
	},
	{
		name: "idle-transaction", description: "an idle transaction keeps the dead rows of the outbox",
		brokerOnly: true, fault: (*system).holdSnapshot,
	},
	{
		name: "slow-network", description: "every packet to the broker and the databases is delayed",
		fault: (*system).slowNetwork,
	},
}
