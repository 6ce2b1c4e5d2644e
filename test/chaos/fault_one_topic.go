package main

import (
	"context"
	"time"
)

// fillOneQueue limits the length of a topic's queue, which then refuses messages.
func (sys *system) fillOneQueue(ctx context.Context) error {
	topics := topicNames(1)
	if err := sys.bindTopics(ctx, topics...); err != nil {
		return err
	}
	return sys.runTopicFault(ctx, topicFault{
		topics: topics, events: sys.many(100_000), lasts: sys.lasting(40 * time.Second),
		begin: func(ctx context.Context) error {
			_, err := sys.rabbitmq.Ctl(ctx, "set_policy", fullPolicy, "^"+queueOf(topics[0])+"$", `{"max-length":1}`, "--apply-to", "queues")
			return err
		},
		mend: func(ctx context.Context) error {
			_, err := sys.rabbitmq.Ctl(ctx, "clear_policy", fullPolicy)
			return err
		},
		othersWithin: 5 * time.Second, outWithin: 30 * time.Second,
	})
}

// bindTooLate binds a topic's queue only after the fault.
func (sys *system) bindTooLate(ctx context.Context) error {
	topics := topicNames(1)
	return sys.runTopicFault(ctx, topicFault{
		topics: topics, events: sys.many(300_000), lasts: sys.lasting(40 * time.Second),
		begin:        func(context.Context) error { return nil },
		mend:         func(ctx context.Context) error { return sys.bindTopics(ctx, topics...) },
		othersWithin: 5 * time.Second, outWithin: time.Minute,
	})
}
