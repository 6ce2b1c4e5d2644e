// Package relay publishes the events of the outbox to the broker. It has the loop and the
// policy. The outbox's SQL and the broker's protocol are behind two small interfaces.
//
// # One batch
//
//	claim a batch ─► publish all of it ─► wait for every confirm ─► mark in one statement
//
// Three things wake a worker: an order that commits in its process, a notification from another
// process (package wakeup), and a poll in case both are missed. It then processes batches until
// nothing is due. Each worker has its own publisher: with RabbitMQ, a channel.
//
// # What it promises
//
// An event is marked published only after the broker has confirmed it and routed it to at least
// one queue. After every other outcome it stays in the outbox:
//
//	outcome    what it means                          what happens
//	Confirmed  on disk, in a queue                    published
//	Returned   no queue is bound                      later, one of each key; no attempt spent
//	Refused    a queue refused only some events       back-off; after MaxAttempts: failed
//	           the broker refused every event         probes, at pauses; no attempt spent
//	Unknown    closed, cut, or timed out              released at once; no attempt spent
//	Invalid    no broker can take it; never sent      failed
//
// After an Unknown, a batch has one event until one succeeds. If the error is ErrSessionClosed, an
// event of the batch is the cause, and the relay does not know which. So as many of the next
// batches have one event as the batch had events. If the error comes again for a batch of one
// event, that event is the cause: it spends an attempt. The others are published.
//
// After a Returned, events of that key are not published for at most 15 s. They wait in the
// outbox, and the outbox makes one of them due again: the probe. When an event of the key is
// confirmed, the others become due again in batches.
//
// A Refused counts as an attempt only if the broker has accepted another event since it last
// refused this one. If the broker has refused events of several orders and has accepted none, it is
// an outage, for example a cluster without its majority. Then the relay publishes one event of each
// key, at growing pauses. The first event that the broker accepts ends the outage. If the broker
// refuses an event and accepts no other one, the event stays pending. Its pauses grow to 10 s.
//
// A failed event stays in the outbox, which has the authoritative state. The copy in the
// dead-letter queue is a signal. The relay tries only once to publish it.
//
// An outage is not the fault of any event. The relay runs only on a session, claims nothing
// while the broker blocks, and releases what it could not finish.
//
// # When a step dies
//
//   - After the claim: the lease ends, and another worker claims the events.
//   - After the confirm and before the mark: the same, and the batch is published again with the
//     same ids. Consumers ignore the ids that they have already processed.
//   - Suspended for longer than its lease: the relay no longer holds the claim, so it cannot
//     release, retry or fail the events. It still marks those that the broker confirmed.
//
// # Shutdown
//
// When its context ends, a worker finishes its batch: it waits for the confirms and marks the
// events. A shutdown causes no second publish.
//
// # What it does not promise
//
// It does not promise that an event is published only once, nor any order between different
// orders.
package relay
