// Package rabbitmq publishes to RabbitMQ and consumes from it, and loses nothing when connections
// break. A relay publishes to a [Broker], and a [Consumer] hands messages to a handler:
//
//	relay, err := outbox.NewRelay(pool, rabbitmq.NewBroker(url, "outbox.events"), outbox.RelayConfig{})
//	group.Go(func() error { return relay.Run(ctx) })
//
//	consumer, err := rabbitmq.NewConsumer(url, rabbitmq.Queue{
//		Name: "notifications", Exchange: "outbox.events", Topics: []string{"order.created"},
//	}, inbox.Once(pool, "notifications", func(ctx context.Context, tx pgx.Tx, m rabbitmq.Message) error {
//		return recordNotification(ctx, tx, m) // once for each message id
//	}))
//	group.Go(func() error { return consumer.Run(ctx) })
//
// # Consuming
//
// The comment of [Consumer] has what happens to a message in each case, and the one of
// [Queue.Topology] has a picture of its queues. The consumer does not guess whether a message or
// its database is the cause of an error: it tries the message once more alone, asks the handler
// whether it could handle another message, and gives a message up only after a time
// ([Queue.GiveUp]). A message that comes back from a retry queue has the same id, type, routing key and
// headers, and a retry-count. A dead letter has the same id, routing key, headers and body, and more headers
// that say why. Only CC and BCC have other names then, so that it is not routed again.
//
// # Sessions
//
// [KeepConnected] runs work on a connection. When the connection breaks, it reconnects and runs
// the work again. A [Session] is one connection with its channels. The work gets the session as a
// parameter, and the work's context ends with the session. So nothing uses a connection that is
// closed.
//
// The client library can reconnect by itself (Config.Recovery). We leave that off. It keeps the
// Channel objects, and delivery tags begin at 1 again. So an Ack from before the reconnect would
// acknowledge another message that has the same tag now, and that message would be lost. Without
// recovery the late Ack fails, and the broker delivers the unacknowledged messages again.
//
// # Publishing
//
// Every message is persistent and mandatory, and its channel is in confirm mode. A message counts
// as delivered if the broker confirmed it and did not return it. A confirm alone is not enough: the
// broker also confirms a message that no queue is bound for. If no confirm comes, the outcome is
// [publish.Unknown]. Then the only safe step is to publish the message again, with the same id.
//
// # A broker that blocks
//
// During a memory or disk alarm the broker stops reading from its publishers, and notifies them.
// [Session.Blocked] reports the alarm, and [Session.Unblocked] waits for its end. If the
// notification does not arrive, each write has a deadline, and closing waits only for a limited
// time.
//
// # Limits
//
// A message may be published more than once, and delivered more than once. A URL may name several
// nodes of one cluster. Each attempt to connect tries them in random order, at most five seconds
// each. The package does not know which node is best: it stays with a node as long as the session
// works.
package rabbitmq
