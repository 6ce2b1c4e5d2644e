// Package wakeup wakes the relays of other processes when an event is committed, by PostgreSQL's
// LISTEN and NOTIFY. Within one process a Go channel does that at no cost: [relay.Relay.Wake].
//
//	n := wakeup.NewNotifier(db)
//	go n.Run(ctx, nil)
//	// after each commit:
//	n.Committed()
//
//	l := wakeup.NewListener(url, relay.Wake, registry)
//	go l.Run(ctx)
//
// # Who notifies
//
// A process without a relay notifies after its commits. A process with a relay waits 20 ms after
// a commit, and notifies if a wake-up is then still waiting for its relay: the relay is busy, or
// has no session with the broker, and another one may be idle. If every process always
// notified, most relays would find nothing, and each empty claim costs the database as much as a
// batch. A process that is asked to stop always notifies.
//
// # What a notification costs
//
// All transactions that notify share a lock, which they hold from before their commit is
// written until it is on disk. So a notification is never part of the order's transaction. It
// is sent after the commit, in a transaction that writes nothing and does not wait for the disk.
// There is at most one every 5 ms, however many orders there are. The first order after a quiet
// time does not wait.
//
// # What it promises
//
// It promises nothing. It only makes the relay faster. A notification is lost if the process dies
// before it sends it, or if no process listens. An order never waits for a notification, and
// never fails because of one. The relay's poll finds every event.
package wakeup

// channel is the channel of LISTEN and NOTIFY.
const channel = "outbox_committed"
