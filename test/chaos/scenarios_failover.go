package main

// failoverScenarios have a database with a standby or a pooler, or a machine that vanishes.
var failoverScenarios = []scenario{
	{
		name: "failover-synchronous", description: "the primary is killed, its synchronous standby takes over, and the old primary comes back",
		setUp: (*system).startSynchronous, fault: (*system).failOverTwice,
	},
	{
		name: "standby-stalls", description: "the synchronous standby takes nothing for 10 s, clients repeat their requests, and then the primary is killed",
		setUp: (*system).startSynchronous, fault: (*system).failOverAfterStall,
	},
	{
		name: "old-primary-returns", description: "after a failover, the old primary is started again by mistake and takes writes",
		setUp: (*system).startSynchronous, fault: (*system).returnOldPrimary,
	},
	{
		name: "failover-asynchronous", description: "the standby is 2 s behind when the primary is killed; the events are republished",
		setUp: (*system).startStandby, fault: (*system).failOverAsynchronously, afterwards: (*system).republish,
	},
	{
		name: "pgbouncer", description: "PgBouncer in transaction mode is killed and started again, and its connections are reset",
		setUp: (*system).startPooler, orderSettings: []string{"OUTBOX_NOTIFY=false"}, fault: (*system).breakPooler,
	},
	{
		name: "switchover-behind-pgbouncer", description: "primary and standby, each behind a PgBouncer that keeps its clients, exchange their roles",
		setUp: (*system).startTwoPoolers, orderSettings: []string{"OUTBOX_NOTIFY=false"}, fault: (*system).switchOver,
	},
	{
		name: "machine-of-database", description: "the primary's machine vanishes, and its synchronous standby takes over",
		setUp: (*system).startSynchronous, fault: (*system).vanishDatabase,
	},
	{
		name: "machine-of-order-service", description: "the machine of a relay with a claimed batch vanishes",
		fault: (*system).vanishOrders,
	},
	{
		name: "machine-of-notification-service", description: "a consumer's machine vanishes during a transaction",
		fault: (*system).vanishMachine,
	},
}
