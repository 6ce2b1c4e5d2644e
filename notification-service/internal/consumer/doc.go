// Package consumer takes messages from the service's queue and decides what becomes
// of each: acknowledged, put into a retry queue, made a dead letter, or held until what
// it needs is back.
//
// # One message
//
// Each message has a goroutine of its own. What messages record at the same time goes into
// one transaction.
//
//	read ─► one transaction { inbox: the first time? ─► record the effect, lease it } ─► send ─► ack
//	  │                 │                                                                 │
//	  └─ permanent ─────┴────────────── dead letter, ack                                  │
//	                    └─ transient ── retry 30s, 1m, 5m, then dead letter; ack ─────────┤
//	                    └─ unavailable ─ hold, until it is there again ───────────────────┘
//
// # What it promises
//
// A message is acknowledged after its effect is committed and done, or after the broker has
// confirmed a copy of it in the queue where it goes next; never before. A message whose copy
// cannot be made keeps its place in the prefetch, and no other message waits for it. So a
// message may be delivered again, and the inbox makes its effect happen once.
//
// # Three kinds of error
//
//   - [Permanent]: no repeat mends it. The message becomes a dead letter at once, with
//     the same id, routing key and body, and the reason in its headers. So does one
//     whose handling panics.
//   - [Unavailable]: what every message needs is away. A circuit breaker closes: messages
//     wait, nothing is spent, and the prefetch makes the rest wait in the queue. One
//     message at a time is tried, until one is accepted. An [Unclear] error closes the
//     breaker only if other messages fail as well; else it is the message's own.
//   - any other is transient: this message failed now. A copy waits in the next retry
//     queue, and the header retry-count says how many it has been in.
//
// A message that has been held for [Config.MaxHold] goes to the longest retry queue,
// which counts nothing: the broker would take it back soon, and cancel the consumer.
//
// # When the process dies
//
//   - before the transaction commits: nothing happened; the broker delivers again;
//   - between commit and ack: the next delivery finds the effect recorded, and goes
//     on from the state in which it is;
//   - after a copy is confirmed, before the ack: two messages with one id, of which the
//     inbox lets one have the effect. Two dead letters can be the result.
//
// The broker counts the death against every message that was out. After the delivery limit
// it dead-letters them all. So a consumer begins with one message at a time, until the first
// one that is no repeat has come to its end. It does so again after a message has ended the
// session, because the client library cannot read it.
//
// A message that finds the lease of a dead process waits for its end in a retry queue,
// and of a copy the broker begins to count again. So the consumer counts those waits,
// and after many the message is a dead letter as well.
//
// # Sessions
//
// When a session with the broker ends, an e-mail that is being sent goes on. Its message
// comes again in the next session, and waits for the first delivery of it.
//
// # Shutdown
//
// When its context ends, the consumer finishes the e-mails that are being sent, for 9
// seconds at most, and writes their outcomes, for 3 seconds at most. What has not begun goes
// back to the queue.
//
// # What it does not promise
//
// That a message is delivered once, and any order of deliveries.
package consumer
