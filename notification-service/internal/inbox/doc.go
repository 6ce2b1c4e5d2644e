// Package inbox remembers which messages have had their effect, in the database of
// the effect: so that a message that comes twice has it once.
//
// # What it promises
//
// [Inbox.Record] takes a *postgres.Tx, as outbox.Append does in order-service. It records a
// batch of messages, in which no id may occur twice. The notes and the effects are committed
// together or not at all.
//
// When two transactions record one id at the same moment, the second one waits for the first.
// If the first one commits, the second one sees a repeat. If the first one rolls back, the
// second one sees a first time.
//
// # The verdicts
//
//   - [First]: the id is noted in this transaction, and the effect belongs into it;
//   - [Repeat]: the id was noted before, however long ago; nothing is written;
//   - [OutsideWindow]: there is no note, and if there was one, it may be pruned by
//     now; nothing is written.
//
// Whether everything that follows from the effect is done as well (an e-mail, here)
// is a state of the effect, and not of the inbox: see package notification.
//
// # The window
//
// Notes are not kept for ever. A message that was created longer ago than the window
// cannot be told from one whose note is pruned, and only an operator who knows may
// force it. A note is kept an hour longer than the window, so a message inside the window
// never counts as the first twice. The comments in prune.go say why. All ages are by the
// database's clock.
//
// # When the consumer dies
//
//   - before the commit: no note, no effect; the broker delivers again;
//   - after the commit, before the ack: both are there; the broker delivers again,
//     and that is a Repeat;
//   - while pruning: a batch is deleted or it is not; another goes on.
//
// # What it does not promise
//
// A forced message has its effect again, if its note is pruned. And a message that
// comes with another id is another message.
package inbox
