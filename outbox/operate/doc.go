// Package operate is what operators do with the events of an outbox: they list them, look at one,
// replay or discard those that failed, publish again what was published, and pause topics.
//
//	operator := operate.New(pool)
//	groups, _, err := operator.Failures(ctx) // how many events failed, by reason and topic
//	failed, err := operator.List(ctx, operate.Filter{Status: operate.Failed}, uuid.Nil, 100)
//
//	by := operate.NewDecision("ann", operate.CLI, operate.ByIDs)
//	result, err := operator.Replay(ctx, by, []uuid.UUID{failed[0].ID}) // a relay sends it again
//	for _, r := range result.Refused {
//		fmt.Println(r) // 0198f2d3-… is published, not failed
//	}
//
// These are the events that a relay could not send. A message that a consumer could not handle is
// not in the outbox: it is in the consumer's queue of dead letters, see package rabbitmq.
//
// # Who decided
//
// Each decision is recorded in the table operator_decisions: who decided, by a command or on a
// page, about which events or topic, and when. A decision that changes the outbox is recorded in
// the transaction of the change: there is neither without the other. A program that changes
// messages at the destination calls [Log.Begin] before the first change, and [Log.Finish] after the
// last one. If the process dies in between, the record has no end: some or all of its items were
// changed, and no others.
//
// # What it reads
//
// Each statement has a snapshot of its own: the transactions are READ COMMITTED. With an older
// snapshot, a statement could look for an event in a part of the log that is empty now.
//
// No plan depends on the statistics of a table: after a quiet time they are those of an empty
// queue. Each statement finds the ids of its events along an index, and then looks them up one by
// one.
//
// All statements work in each of pgx's five modes to run queries. So ids and lists are one text
// with a cast, because two of the modes cannot send an array.
package operate
