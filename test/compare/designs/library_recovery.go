package main

import (
	"context"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/test/compare/shop"
)

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
				handleWithRecovery(ctx, s, d)
			}
		})
	}
	workers.Wait()
	<-ctx.Done() // as a service waits whose HTTP server still answers
	return nil
}

func handleWithRecovery(ctx context.Context, s *shop.Shop, d amqp.Delivery) {
	e, err := shop.Read(d)
	if err != nil {
		_ = d.Nack(false, false)
		return
	}
	if effectUntilDone(ctx, s, e, true) {
		_ = d.Ack(false)
	}
}
