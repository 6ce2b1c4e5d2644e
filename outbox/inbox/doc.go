// Package inbox gives a message its effect once, however often it is delivered.
//
//	handler := inbox.Once(pool, "notifications", func(ctx context.Context, tx pgx.Tx, m rabbitmq.Message) error {
//		_, err := tx.Exec(ctx, "INSERT INTO notifications (body) VALUES ($1)", string(m.Body))
//		return err
//	})
//	consumer, err := rabbitmq.NewConsumer(url, queue, handler)
//
// Call [Migrate] first: it makes the table, in the database that the handler writes to. With
// another broker, call [Inbox.Handle] for each batch, and run [Inbox.Run]: a consumer of package
// rabbitmq does both.
//
// A message's id and its effect are committed together. If another transaction is recording the
// same id, the second one waits for the end of the first. If the process dies before the
// acknowledgement, the message comes again: it is known if the effect was committed, and new if
// not.
//
// What a handler does outside its transaction may happen again, for example an e-mail. Append an
// event to an outbox in the transaction instead. An id is kept for the [Retention]: it must be
// longer than a message can stay in a queue, in retries or among the dead letters.
package inbox
