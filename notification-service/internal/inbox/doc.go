// Package inbox records which messages have had their effect. It does so in the effect's
// database and transaction, so a message that is delivered twice has its effect once.
//
// # What it promises
//
// [Inbox.Record] takes a pgx.Tx, as outbox.Append does in order-service. It records a
// batch of messages. An id may occur only once in a batch. The inbox rows and the effects are
// committed together or not at all.
//
// When two transactions record one id at the same moment, the second one waits for the first.
// If the first one commits, the second one gets [Duplicate]. If the first one rolls back, the
// second one gets [First].
//
// # The results
//
//   - [First]: this transaction has inserted the id. Write the effect in it.
//   - [Duplicate]: the id was recorded before, however long ago. Nothing is written.
//   - [OutsideWindow]: the id is not in the table. If it was, it may be pruned by now. Nothing is
//     written.
//
// The inbox does not know whether the work after the effect is done, for example an e-mail. That
// is a state of the effect: see package notification.
//
// # The window
//
// Rows are not kept for ever. If a message was created longer ago than the window, its row may
// be pruned, so it may be a duplicate. Only an operator may force such a message. A row is kept
// an hour longer than the window, so a message inside the window never gets First twice. The
// comments in prune.go say why. All ages are by the database's clock.
//
// # When the consumer dies
//
//   - Before the commit: there is no row and no effect. The broker delivers again.
//   - After the commit, before the ack: both are there. The broker delivers again, and the
//     result is Duplicate.
//   - While pruning: a batch is deleted or it is not. Another process goes on.
//
// # What it does not promise
//
// A forced message has its effect again if its row is pruned. A message with another id is
// another message.
package inbox
