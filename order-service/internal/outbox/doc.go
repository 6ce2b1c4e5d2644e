// Package outbox stores events in the business database, so that an event is committed together
// with the order that it reports, or not at all.
//
// # What it promises
//
// [Append] requires a *postgres.Tx, and only an open transaction has one. So code that appends an
// event outside its order's transaction does not compile. A committed event stays until it is
// published or an operator discards it. An event that was rolled back never existed.
//
// # The tables
//
//	outbox_events      the log: inserted with the order, never changed
//	outbox_queue       what is still to publish: inserted with the event, deleted when it is done
//	outbox_claims      the events that relays work on, and until when
//	outbox_published   the events that the broker has confirmed
//	outbox_discarded   the events that an operator has discarded
//
// The log and outbox_published are partitioned by the id, which begins with the time of its creation.
// The janitor is a loop beside each relay ([Store.RunJanitor]). It makes the partitions ahead and
// drops each one as a whole when it is old. There are about a dozen. Before it drops one, it moves
// the events that have to stay to the default partition. The default partition also takes ids of
// wrong clocks, and new events while no janitor runs. Its events are deleted one by one
// (migrations/00006_outbox_partitions.sql).
//
// An event waits if and only if it has a row in the queue. The tables determine its status; the
// view outbox_status shows it:
//
//	pending ──Claim──► in_progress ──MarkPublished──► published
//	   ▲                    │
//	   ├─Reschedule─Release─┤
//	   │                    └──Fail──► failed ──Discard────► discarded
//	   └──────────Replay─────────────────┘
//
// A claim is a lease: it ends after a time, and it has a token that no other claim has. It changes
// no event. Claims run one after the other; each takes milliseconds.
//
// # Order
//
// A claim takes an event only if it is the oldest of its order in the queue. So the events of one
// order are published in the order of their versions, with any number of relays. A failed event
// blocks the later events of its order until it is replayed or discarded.
//
// # Parked events
//
// An event that waits for a claimed one stays due. If it waits for an event that is itself due
// later, the claim that finds it parks it: it sets available_at to 'infinity', so that claims do
// not read it again and again. A claim also parks a large number of blocked events. Whoever
// deletes the older event makes the next one due (park.go). Parking saves work; it does not keep
// the order.
//
// If no queue is bound for a key, one event of the key is retried after a pause, and the others
// are parked until [Store.RetryUnroutable] (route.go).
//
// # When a relay dies
//
//   - before the claim commits: nothing has happened;
//   - after the claim, before the broker has the event: the lease ends, and the next claim takes
//     the event again;
//   - after the broker's confirm, before MarkPublished commits: the same, and the event is
//     published twice with one id. This is why delivery is at-least-once, and why the consumer
//     needs an inbox.
//
// # Fencing
//
// MarkPublished needs no lease: the broker's confirm is a fact, whoever records it. Reschedule,
// Release and Fail give the claim's token. They do nothing if that claim has ended.
//
// # Clocks
//
// Every time in the tables is the database's. Callers give durations only. So the clocks of the
// replicas may differ by any amount.
//
// # What it does not promise
//
// It does not promise an order between different orders, nor that an event is published only once.
package outbox
