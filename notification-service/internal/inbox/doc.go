// Package inbox remembers which messages have had their effect, in the database of
// the effect: so that a message that comes twice has it once.
//
// # What it promises
//
// [Inbox.Record] asks for a *postgres.Tx, as outbox.Append does on the other side. It
// records a batch of messages. The notes and the effects are committed together or not at
// all. Of two transactions
// that record one id at the same moment, the second waits for the first: if that
// commits, it learns that the message is a repeat; if it rolls back, it is the first.
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
// force it. A note lives an hour longer than the window lets its message in, so a
// message inside the window is never new twice: [Inbox.Prune] says why. All ages are
// by the database's clock.
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
