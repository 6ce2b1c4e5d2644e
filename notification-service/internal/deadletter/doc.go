// Package deadletter reads the dead letters, sends them to the consumer again, and deletes them.
// The commands and the page use it.
//
// # How the queue is read
//
//	take a message ─► chosen? ─► recorded ─► copy confirmed ─► removed ─► record finished
//	                   └─ no, or no copy: held, and given back at the end
//
// To read a queue, one must take its messages. So while it is read, no other client sees the
// messages that are held. If the process dies at any step, the broker puts them back. A message
// that is copied and not yet removed is then in both queues, with the same id. The consumer's inbox
// recognises the second one as a duplicate.
//
// # What is recorded
//
// A [Change] works in batches of at most 100 messages. It takes the messages of a batch, and while
// it holds them nobody else can change them. Then it records their ids in the database, and only
// then it changes them. No transaction spans the database and the broker, so a process can die in
// between:
//
//   - Before the record: nothing is changed.
//   - After it: the record has no end. It says that at most these messages were changed.
//   - A replayed copy has the header x-operator-decision, also if the record has no end.
//
// A record has an end when the broker has removed what was changed, and the number is known.
//
// # What it does not promise
//
// The order of the queue, after a message is removed or the reading stops before the queue's end.
package deadletter
