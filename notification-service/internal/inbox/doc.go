// Package inbox remembers which messages have had their effect, in the database of
// the effect: so that a message that comes twice has it once.
//
// # What it promises
//
// [Record] asks for a *postgres.Tx, as outbox.Append does on the other side. The
// note and the effect are committed together or not at all. Of two transactions
// that record one id at the same moment, the second waits for the first: if that
// commits, it learns that the message is old; if it rolls back, it is the first.
//
// # The states
//
// A message id is there or it is not. Whether everything that follows from the
// effect is done as well (an e-mail, here) is a state of the effect, and not of the
// inbox: see package notification.
//
// # When the consumer dies
//
//   - before the commit: no note, no effect; the broker delivers again;
//   - after the commit, before the ack: both are there; the broker delivers again,
//     and Record says that it is not the first time.
//
// # What it does not promise
//
// It remembers for a limited time. A message that is older than that cannot be told
// from a new one.
package inbox
