// Package consumer takes messages from the service's queue and decides what becomes
// of each: acknowledged, put aside for a retry, made a dead letter, or held until what
// it needs is back.
//
// # One delivery
//
//	parse ─► one transaction { inbox: the first time? ─► record the effect } ─► complete it ─► ack
//	  │                 │                                                          │
//	  └─ permanent ─────┴──────────────── dead letter, ack                         │
//	                    └─ transient ──── retry 30s, 1m, 5m, then dead letter; ack ┤
//	                    └─ unavailable ── hold, until it is there again ───────────┘
//
// # What it promises
//
// A message is acknowledged after its effect is committed and completed, or after the
// broker has confirmed a copy of it in the queue where it goes next; never before. As
// long as no copy can be made the message stays out, and the copy is tried again. So a
// message may be delivered again, and the inbox makes its effect happen once.
//
// # Three kinds of error
//
//   - [Permanent]: no repeat mends it. The message becomes a dead letter at once, with
//     the same id, routing key and body, and the reason in its headers. So does one
//     whose handling panics.
//   - [Unavailable]: what the message needs is away. The consumer asks the dependency
//     itself. If that does not answer, its gate closes: all messages wait, nothing is
//     spent, and the prefetch makes the rest wait in the queue. If it does answer, the
//     message is tried again, and after some times it is the message's own trouble.
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
// The broker counts the death against every message that was out, and after the
// delivery limit it takes them all for killers. So a consumer begins with one message
// at a time, until the first one that is no repeat has come to its end.
//
// A message that finds the lease of a dead process waits for its end in a retry queue,
// and of a copy the broker begins to count again. So the consumer counts those waits,
// and after many the message is a dead letter as well.
//
// # Shutdown
//
// When its context ends, a worker finishes the delivery that it is handling, if what
// that needs is there; what it has not begun goes back to the queue.
//
// # What it does not promise
//
// That a message is delivered once, and any order of deliveries. And after a session
// is lost, this process takes messages again when the handlers have finished what they
// have in hand, within seconds as a rule, 20 s at most: to break an e-mail off in the
// middle would be to send it twice. Other replicas go on meanwhile.
package consumer
