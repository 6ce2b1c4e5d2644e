package main

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/test/chaos/broker"
	"example.com/transactional-outbox/test/servers"
)

// quickRetries make a relay try as often in a minute as it does in a day. However often an event is
// refused, it may not be failed before RELAY_GIVE_UP.
var quickRetries = []string{"RELAY_RETRY_BASE=100ms", "RELAY_RETRY_CAP=1s"}

// forbidPublishing revokes the permission to write to the exchange. The broker closes the channel
// for each event.
func (sys *system) forbidPublishing(ctx context.Context) error {
	return sys.forbid(ctx, 0, func(ctx context.Context) error {
		_, err := sys.rabbitmq.Ctl(ctx, "set_permissions", orderService, ".*", "^$", ".*")
		return err
	}, sys.setPermissions)
}

// forbidTopic revokes the permission to publish one topic.
func (sys *system) forbidTopic(ctx context.Context) error {
	return sys.forbid(ctx, 5*time.Second, func(ctx context.Context) error {
		_, err := sys.rabbitmq.Ctl(ctx, "set_topic_permissions", orderService, broker.Exchange, `^(?!backlog)`, ".*")
		return err
	}, func(ctx context.Context) error {
		_, err := sys.rabbitmq.Ctl(ctx, "clear_topic_permissions", orderService)
		return err
	})
}

func (sys *system) forbid(ctx context.Context, othersWithin time.Duration, revoke, grant func(context.Context) error) error {
	topics := topicNames(1)
	if err := sys.bindTopics(ctx, topics...); err != nil {
		return err
	}
	sys.allowed.Refusals = true
	return sys.runTopicFault(ctx, topicFault{
		topics: topics, events: sys.many(100_000), lasts: sys.lasting(40 * time.Second),
		begin: func(ctx context.Context) error { return errors.Join(revoke(ctx), sys.cutPublishers()) }, mend: grant,
		othersWithin: othersWithin, outWithin: 30 * time.Second,
	})
}

// cutPublishers cuts the connections of the relays: a channel remembers what it was permitted.
func (sys *system) cutPublishers() error {
	sys.allowInFlight()
	for _, p := range sys.publisherProxies() {
		p.Cut()
	}
	return nil
}

// publisherProxies returns the proxies between the relays and the broker.
func (sys *system) publisherProxies() (all []*servers.Proxy) {
	for _, proxies := range sys.ordersToBroker {
		all = append(all, proxies...)
	}
	return all
}
