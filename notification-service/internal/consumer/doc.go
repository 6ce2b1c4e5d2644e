// Package consumer takes messages from the service's queue and decides what becomes
// of each: acknowledged, put aside as a dead letter, or held until what it needs is
// back.
//
// # One delivery
//
//	parse ─► one transaction { inbox: the first time? ─► record the effect } ─► complete it ─► ack
//
// # What it promises
//
// A message is acknowledged after its effect is committed and completed, or after a
// confirmed copy of it is in the dead-letter queue; never before. So a message may
// be delivered again, and the inbox makes its effect happen once.
//
// # Two kinds of error
//
//   - [Permanent]: this message will never succeed. It goes to the dead-letter
//     queue, unchanged, with the reason, and the good ones behind it go on.
//   - any other: what the message needs is away. The worker holds the message and
//     tries again, slower and slower; nothing is spent, and the prefetch makes the
//     rest wait in the queue.
//
// # When a step dies
//
//   - before the transaction commits: nothing happened; the broker delivers again;
//   - between commit and ack: the next delivery finds the effect recorded, and goes
//     on from the state in which it is;
//   - after the copy to the dead-letter queue, before the ack: two dead letters, with
//     one id.
//
// # Shutdown
//
// When its context ends, a worker finishes the delivery that it is handling, if what
// that needs is there; what it has not begun goes back to the queue.
//
// # What it does not promise
//
// That a message is delivered once, and any order of deliveries.
package consumer
