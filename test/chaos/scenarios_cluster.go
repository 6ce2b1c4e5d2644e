package main

import "slices"

// clusterScenarios need more than one machine: a cluster of brokers, or a database with a standby.
// They run with CLUSTER=1.
var clusterScenarios = slices.Concat(brokerScenarios, failoverScenarios)

// brokerScenarios need three brokers.
var brokerScenarios = []scenario{
	{
		name: "node-sigkill", description: "the one of three brokers that all services are connected to is killed, and started again later",
		threeBrokers: true, brokerOnly: true, fault: (*system).killNode,
	},
	{
		name: "rolling-upgrade", description: "each of three brokers is stopped and started again in turn",
		threeBrokers: true, brokerOnly: true, fault: (*system).upgradeNodes,
	},
	{
		name: "majority-lost", description: "two of three brokers are killed, and the last one refuses everything",
		threeBrokers: true, notificationSettings: []string{"DELIVERY_LIMIT=5"},
		brokerOnly: true, fault: (*system).refuseWithoutMajority, afterwards: (*system).allowNotTaken,
	},
	{
		name: "majority-silent", description: "two of three brokers are killed, and the last one takes everything and confirms nothing",
		threeBrokers: true, notificationSettings: []string{"DELIVERY_LIMIT=5"},
		brokerOnly: true, fault: (*system).stallWithoutMajority, afterwards: (*system).allowNotTaken,
	},
	{
		name: "majority-paused", description: "two of three brokers are killed, and the last one pauses (pause_minority)",
		threeBrokers: true, orderSettings: giveUpSoon, notificationSettings: []string{"DELIVERY_LIMIT=5"},
		brokerOnly: true, fault: (*system).pauseMajority, afterwards: (*system).allowNotTaken,
	},
	{
		name: "machine-of-leader", description: "the machine of the broker that leads the consumer's queue and has all connections vanishes",
		threeBrokers: true, brokerOnly: true, fault: (*system).vanishLeader,
	},
	{
		name: "partition", description: "the broker that all services are connected to is cut off from the others, and pauses",
		threeBrokers: true, brokerOnly: true, fault: (*system).partition,
	},
	{
		name: "leader-moved", description: "the leaders of the queues move: each of three brokers is drained in turn",
		threeBrokers: true, brokerOnly: true, fault: (*system).moveLeaders,
	},
	{
		name: "node-joins", description: "two brokers join a single one, its queues get replicas on them, and the first broker is killed",
		threeBrokers: true, before: (*environment).leaveOneNode, brokerOnly: true, fault: (*system).joinNodes,
	},
}
