package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// silenceOneQueue suspends the process of a topic's queue. The broker still answers for all others.
func (sys *system) silenceOneQueue(ctx context.Context) error {
	return sys.silence(ctx, 1, 5*time.Second)
}

// silenceManyQueues suspends the queues of twice as many topics as a relay has workers.
func (sys *system) silenceManyQueues(ctx context.Context) error {
	return sys.silence(ctx, 2*relayWorkers, 15*time.Second)
}

func (sys *system) silence(ctx context.Context, n int, othersWithin time.Duration) error {
	topics := topicNames(n)
	if err := sys.bindTopics(ctx, topics...); err != nil {
		return err
	}
	// While a queue does not take what was sent to it, the broker reads nothing more from that
	// connection, also no events of the orders. So some orders' events have no answer, and are sent
	// again.
	sys.allowed.Refusals = true
	sys.allowed.Duplicates += int(othersWithin.Seconds()) * 2 * sys.PerSecond
	return sys.runTopicFault(ctx, topicFault{
		topics: topics, events: sys.many(100_000), lasts: othersWithin + sys.lasting(40*time.Second),
		begin:        func(ctx context.Context) error { return sys.eachQueue(ctx, "sys:suspend", topics) },
		mend:         func(ctx context.Context) error { return sys.eachQueue(ctx, "sys:resume", topics) },
		othersWithin: othersWithin, outWithin: 15 * time.Second,
	})
}

// eachQueue calls an Erlang function with the process of each topic's queue.
func (sys *system) eachQueue(ctx context.Context, function string, topics []string) error {
	var code strings.Builder
	for _, topic := range topics {
		fmt.Fprintf(&code, `(fun() -> {ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
			{Name, _} = amqqueue:get_pid(Q), %s(Name) end)(), `, queueOf(topic), function)
	}
	output, err := sys.rabbitmq.Ctl(ctx, "eval", code.String()+"ok.")
	if err != nil {
		err = errors.Join(err, errors.New(output))
	}
	return err
}
