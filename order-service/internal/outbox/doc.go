// Package outbox keeps events in the database of the business, so that an event
// is committed together with what it tells of, or not at all.
//
// # What it promises
//
// [Append] asks for a *postgres.Tx, which only an open transaction has: an event
// outside the transaction of its order does not compile. What is committed stays
// until it is published or an operator discards it. What was rolled back was
// never there.
//
// # The states
//
//	pending ──Claim──► in_progress ──MarkPublished──► published
//	   ▲                    │
//	   ├─Reschedule─Release─┤
//	   │                    └──Fail──► failed ──Discard────► discarded
//	   └──────────Replay─────────────────┘
//
// A claim is a lease: it has an end, and a token that no other claim has. The end
// stands in available_at, the column that says of a pending event when it is due,
// so one predicate finds what is due and what a crashed relay left behind.
//
// # Order
//
// A claim passes over an event whose order has an older one that is neither
// published nor discarded. So the events of one order leave in the order of their
// versions, whatever the number of relays; and a failed event holds its order's
// later ones back until it is replayed or discarded.
//
// # Where blocked events wait
//
// A claim walks over what is due and blocked, so such rows are moved away: behind a
// backed-off or released event to the same time, and behind a failed one to
// 'infinity', where only its replay, its discard or a late confirm of it brings them
// back. That is a matter of cost, never of order. Rows behind an event in a relay's
// hands stay due: that is soon over, and they are not many. [Store.KeepTidy] puts
// away what two overlapping transactions have left in the way.
//
// Of the events of a key that no queue is bound for, one is tried again after a pause,
// and the others are parked, until [Store.BringBack] is told that there is a queue.
//
// # When a relay dies
//
//   - before the claim commits: nothing happened;
//   - after it, before the broker has the event: the lease ends, the next claim
//     takes the event again;
//   - after the broker confirmed, before MarkPublished: the same, and the event is
//     published twice with one id. This is why delivery is at-least-once, and why
//     the consumer keeps an inbox.
//
// # Fences
//
// Being published is a fact, whoever learns it: MarkPublished needs no lease.
// Every step back (Reschedule, Release, Fail) names the claim's token and does
// nothing when the lease has gone to somebody else.
//
// # Clocks
//
// Every time in the table is the database's. Callers send durations only, so the
// replicas' clocks may disagree as much as they like.
//
// # What it does not promise
//
// Order between different orders, and that an event is published only once.
package outbox
