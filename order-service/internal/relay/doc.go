// Package relay carries events from the outbox to the broker. It is the loop and
// its policy; the outbox's SQL and the broker's protocol are behind two small
// interfaces.
//
// # One pass
//
//	claim a batch ─► publish all of it ─► wait for every confirm ─► mark in one statement
//
// A worker wakes when an order commits in its process, and by a poll as a safety
// net; then it passes until nothing is due. Each worker has a channel and a batch of
// its own.
//
// # What it promises
//
// An event is marked published only after the broker confirmed it and routed it to
// at least one queue. Every other outcome brings it back:
//
//	outcome    what it means                          what happens
//	Confirmed  on disk, in a queue                    published
//	Returned   no queue is bound                      later, one of each key; no attempt spent
//	Refused    a queue did not take it                back-off; after MaxAttempts: failed
//	Unknown    channel closed, cut, or timed out      released at once; no attempt spent
//	Invalid    no broker could take it; never sent    failed
//
// After an Unknown the batches are of one until a success; when the broker closed the
// channel, and nothing but the channel, for as many events as the batch had: any of
// them may be the cause. The one over which it does so again, alone in its batch, is
// to blame: it is treated as Refused, and the others go on.
//
// After a Returned, events of the key are not published for a pause of at most 15 s. They
// wait in the outbox, which makes one of them due again: the probe. When one of the key is
// confirmed, the others come back in batches.
//
// A failed event stays in the outbox, which is the truth. The copy in the
// dead-letter queue is a signal, made once, as well as it goes.
//
// An outage is no event's fault: the relay runs only on a session, claims nothing
// while the broker blocks, and gives back what it could not finish.
//
// # When a step dies
//
//   - after the claim: the lease ends, and another worker takes the batch;
//   - after the confirm, before the mark: the same, and the batch is published
//     again with the same ids. Consumers drop what they have had;
//   - stopped longer than its lease: its steps back find the lease gone and do
//     nothing; its "published" is still true and still written.
//
// # Shutdown
//
// When its context ends, a worker finishes the pass that it is in: the confirms are
// awaited and marked. Nothing is published twice because of a shutdown.
//
// # What it does not promise
//
// That an event is published once, and any order between different orders.
package relay
