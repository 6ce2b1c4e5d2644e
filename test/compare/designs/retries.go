package main

import (
	"context"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
)

// retriesMainExchange copies a failed message to a retry queue, whose messages return to the main
// exchange when their time is over. After three retries the message is a dead letter.
//
// Source: "Transactional Outbox with RabbitMQ", part 2 (Sagar Maheshwary): 30 s, 1 m and 5 m, by
// x-message-ttl and x-dead-letter-exchange. Here they are about a hundredth of that, as in this
// project's suite.
//
// Right: a failed message does not block the others, and it does not retry for ever. Inbox and
// effect are one transaction. But the main exchange gives the copy to every service, and an outage
// that is longer than all retries makes dead letters of good messages.
func retriesMainExchange(ctx context.Context, s *shop.Shop) error {
	return s.Consume(ctx, false, func(ctx context.Context, channel *amqp.Channel, d amqp.Delivery) {
		err := readAndWork(ctx, d, func(e shop.Event) error { return s.Effect(ctx, e, true) })
		if err != nil {
			err = retry(ctx, channel, d)
		}
		if err != nil {
			_ = d.Nack(false, true)
			return
		}
		_ = d.Ack(false)
	})
}

var retryDelays = []int{300, 1000, 3000} // milliseconds

// retry publishes the message to the next retry queue, or to the dead letters.
func retry(ctx context.Context, channel *amqp.Channel, d amqp.Delivery) error {
	count, _ := d.Headers["x-retry-count"].(int32)
	copied := amqp.Publishing{
		Headers: amqp.Table{"x-retry-count": count + 1}, MessageId: d.MessageId, Type: d.Type,
		Body: d.Body, ContentType: d.ContentType, DeliveryMode: amqp.Persistent,
	}
	if int(count) >= len(retryDelays) {
		return channel.PublishWithContext(ctx, "", shop.DeadLetters, false, false, copied)
	}
	name := fmt.Sprintf("%s.retry.%d", shop.Queue, count+1)
	err := shop.Declare(channel, name, amqp.ExchangeTopic, name, amqp.Table{
		"x-message-ttl": retryDelays[count], "x-dead-letter-exchange": shop.Exchange,
	})
	if err != nil {
		return err
	}
	return channel.PublishWithContext(ctx, name, d.RoutingKey, false, false, copied)
}

// libraryRecovery leaves the reconnecting to the client library.
//
// Source: amqp091-go 1.16, Config.Recovery: it opens the connection and the channel again, declares
// the queues, and subscribes again. Its defaults are 5 attempts with 5 s between them; here it is a
// tenth of that, as with all times.
//
// Right: no code for reconnecting at all. Inbox and effect in one transaction, the e-mail after it,
// the ack at the end. But after its last attempt the library gives up, and the consumer waits for
// ever. And an ack for a message of the old channel can acknowledge another one of the new channel.
func libraryRecovery(ctx context.Context, s *shop.Shop) error {
	recovery := &amqp.Recovery{ReconnectionConfig: &amqp.ReconnectionConfig{
		MaxRetryCount: amqp.DefaultMaxRetryCount, RetryInterval: amqp.DefaultRetryInterval / 10,
	}}
	conn, channel, err := shop.OpenWith(s.AMQPURL, recovery)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	deliveries, err := shop.Subscribe(ctx, channel, false)
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for d := range deliveries {
				effectUntilDone(ctx, s, d, true)
			}
		})
	}
	workers.Wait()
	<-ctx.Done() // as a service waits whose HTTP server still answers
	return nil
}
