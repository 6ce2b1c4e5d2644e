// Package inbox gives a message its effect once, however often it is delivered.
//
//	handler := inbox.Once(pool, "notifications", func(ctx context.Context, tx pgx.Tx, m rabbitmq.Message) error {
//		_, err := tx.Exec(ctx, "INSERT INTO notifications (body) VALUES ($1)", string(m.Body))
//		return err
//	})
//	consumer, err := rabbitmq.NewConsumer(url, queue, handler)
//
// Call [Migrate] first: it makes the table, in the database that the handler writes to. The package
// works with any broker: a [Message] is any type with an id. With another broker, call
// [Inbox.Handle] for each batch, and run [Inbox.Run]; a consumer of package rabbitmq does both.
//
// A message's id and its effect are written in one transaction, so both are committed or neither
// is. If the id is in the table, the handler is not called. If two transactions record the same id
// at the same time, the second one waits: if the first one commits, the message is known; if it
// rolls back, the message is new. If the process dies before the commit, the broker delivers the
// message again and it is new. If the process dies after the commit and before the acknowledgement,
// the message comes again and is known.
//
// # What it does not promise
//
// An id is kept for the [Retention]. If a message comes again later, it has its effect again. So
// the retention must be longer than a message can stay in a queue, in retries or among the dead
// letters.
//
// A handler may run again after an error or a crash. What it does outside its transaction, such as
// sending an e-mail, may then happen again. Instead, append an event to an outbox in the same
// transaction.
package inbox
