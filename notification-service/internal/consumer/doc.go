// Package consumer takes messages from the service's queue. It acknowledges each one, moves it
// to a retry queue or to the dead letters, or holds it until its dependencies are back.
//
// # One message
//
// Each message has a goroutine of its own. Messages that are recorded at the same time share one
// transaction.
//
//	validate ─► one transaction { inbox: first? ─► record the effect, lease it } ─► send ─► ack
//	  │               │                                                              │
//	  └─ permanent ───┴─────────────── dead letter, ack                              │
//	                  └─ transient ─── retry 30s, 1m, 5m, then dead letter; ack ─────┤
//	                  └─ unavailable ─ hold, until the dependency is back ───────────┘
//
// # What it promises
//
// A message is acknowledged after its effect is committed and done, or after the broker has
// confirmed a copy of it in the queue where it goes next; never before. A message whose copy
// cannot be made keeps its place in the prefetch, and no other message waits for it. After
// [Config.MaxHold] it goes back to its queue, as a new message. A message that is too large for a
// copy is rejected, and the broker itself moves it to the dead letters.
//
// So a message may be delivered again. The inbox makes its effect happen once.
//
// # Kinds of error
//
//   - [Permanent]: another try cannot help. The message becomes a dead letter at once, with
//     the same id, routing key and body, and the reason in its headers. A message whose
//     handling panics becomes one too.
//   - [Unavailable]: what every message needs is away. The gate closes at once:
//     messages wait, no retry is spent, and the prefetch makes the rest wait in the queue.
//     One message at a time is tried, until one is accepted.
//   - [Unclear]: the dependency or the message is at fault. The message is held and tried
//     again. If it fails again after another message was accepted, it is at fault, and
//     [Unclear.MessageError] is its error. If three messages wait with such an error at the same
//     time, the gate closes.
//   - [Deferred]: the mail server takes this e-mail later. [LeasedElsewhere]: another process has
//     the lease. A copy waits in a retry queue, and no retry is spent. A header of its own
//     counts these waits, and beyond a limit the message becomes a dead letter.
//   - any other error is transient: this message failed now. A copy waits in the next retry
//     queue, and the header retry-count says how many retries the message has had.
//
// When a message has been held for [Config.MaxHold], a copy goes to the longest retry queue,
// and no counter is raised. If the consumer held it much longer, the broker would take it
// back and cancel the consumer.
//
// # When the process dies
//
//   - before the transaction commits: nothing happened; the broker delivers again;
//   - between commit and ack: the next delivery finds the effect recorded, and goes
//     on from the state in which it is;
//   - after a copy is confirmed, before the ack: two messages with one id, of which the
//     inbox lets one have the effect. Two dead letters can be the result.
//
// The broker counts the death against every message that was unacknowledged. After the
// delivery limit it dead-letters them all. So a consumer begins with one message at a time,
// until one is done that had not been delivered before. It does so again after a message has
// ended the session, because the client library cannot read it. The next message does not wait
// for one that only waits: for its copy, for other messages, long for the mail server, or until
// the database knows that its e-mail is sent.
//
// A message whose notification is leased to a dead process waits in a retry queue until the
// lease ends. The broker starts its count again for each copy. So the consumer counts these
// waits itself, and after 50 of them the message becomes a dead letter.
//
// # Sessions
//
// When a session with the broker ends, an e-mail that is being sent goes on. Its message
// comes again in the next session, and waits for the first delivery of it.
//
// # Shutdown
//
// When its context ends, the consumer finishes the e-mails that are being sent and the copies
// that are being published, for 9 seconds at most. It writes their outcomes, for 3 seconds at
// most. All other messages go back to the queue, also those that are recorded and wait for
// their turn to be sent.
//
// # What it does not promise
//
// That a message is delivered only once, or in any order.
package consumer
