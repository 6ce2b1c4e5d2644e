package main

import (
	"context"
	"errors"
	"slices"

	"example.com/transactional-outbox/test/chaos/broker"
)

// resetTopology deletes the queues and exchanges of the scenario before.
func (env *environment) resetTopology(ctx context.Context) error {
	return errors.Join(env.deleteTopology(ctx), env.broker.BindTap(ctx))
}

func (env *environment) deleteTopology(ctx context.Context) error {
	tiers := allRetryQueues()
	queues := append([]string{broker.Queue, broker.DeadLetters, broker.Tap}, tiers...)
	for _, topic := range topicNames(mostTopics) {
		queues = append(queues, queueOf(topic))
	}
	exchanges := append([]string{broker.Exchange, "notification-service.dlx", broker.Requeue}, tiers...)
	return errors.Join(env.broker.DeleteQueues(ctx, queues...), env.broker.DeleteExchanges(ctx, exchanges...))
}

// retryQueues returns the names of the retry queues, which are also the names of their exchanges.
func (sys *system) retryQueues() (names []string) {
	for _, delay := range sys.notificationServices[0].retryDelays() {
		names = append(names, retryQueue(delay))
	}
	return names
}

// allRetryQueues returns the retry queues of all scenarios.
func allRetryQueues() (names []string) {
	for _, s := range slices.Concat([]scenario{soak}, scenarios, clusterScenarios) {
		r := replica{settings: slices.Concat(notificationSettings, s.notificationSettings)}
		for _, delay := range r.retryDelays() {
			names = append(names, retryQueue(delay))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func retryQueue(delay string) string { return broker.Queue + ".retry." + delay }
