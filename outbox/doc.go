// Package outbox stores events in the transaction that they report, and sends them afterwards.
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := saveOrder(ctx, tx, o); err != nil {
//			return err
//		}
//		return outbox.Append(ctx, tx, outbox.Event{
//			Topic: "order.created", Payload: body,
//			Aggregate: "order", AggregateID: o.ID, Version: o.Version, // 1 if the order is new
//		})
//	})
//	relay.Wake() // optional
//
// Once, when the program starts:
//
//	err := outbox.Migrate(ctx, pool) // makes the tables
//	broker := rabbitmq.NewBroker(url, "outbox.events")
//	relay, err := outbox.NewRelay(pool, broker, outbox.RelayConfig{})
//	group.Go(func() error { return relay.Run(ctx) })
//
// Without a broker, publish.Func makes a destination of a function, for example of a webhook.
//
// Until a queue is bound for an event, the event waits. If another consumer's queue is bound
// already, it does not wait for yours, and yours never gets it. If the program knows its consumers,
// let the relay declare their queues, too: rabbitmq.Broker.Topology.
//
// It needs PostgreSQL 15 or newer. The file docs/copy-it.md of the repository says how to get a
// release.
//
// # Your transaction
//
// [Append] takes an open transaction and nothing else. With a pool or a connection it does not
// compile.
//
//	pgx             outbox.Append(ctx, tx, event)
//	database/sql    outbox.Append(ctx, outbox.FromSQL(tx), event)
//	gorm            outbox.Append(ctx, outbox.FromGorm(tx.Statement.ConnPool), event)
//
// gorm has the same type inside and outside a transaction. So the compiler cannot check it: outside
// a transaction, Append returns an error. Every isolation level works, and every query mode of pgx,
// also those for poolers (exec, simple_protocol).
//
// # What it promises
//
//   - An event and the change that it reports are committed together, or neither is. After the
//     commit, a crash of PostgreSQL does not lose them: Append makes the commit wait for the disk,
//     even if synchronous_commit is off.
//   - Every committed event is sent, at least once, with the same id each time. It stays in
//     the outbox until the destination has taken it, an operator has discarded it, or a newer event
//     has superseded it ([Event].Supersedes). If the destination can never take it, it becomes
//     failed: it is kept, and an operator can replay it with package operate.
//   - The events of one aggregate are delivered one after the other, by Version. A failed event
//     holds the later ones back, unless they supersede it. Your transaction must hold a lock for
//     that: see [Append].
//   - The payload arrives as it was, byte for byte.
//   - All times are from the database's clock. The clocks of your machines may differ.
//
// # What it does not promise
//
//   - That an event arrives only once. The consumer has to ignore an id that it knows: package
//     inbox does that.
//   - An order between two aggregates, or among events without one.
//   - That an ID is unique for longer than the retention: see [ErrDuplicate].
//   - That a superseded event is never sent: a relay may be sending it already.
//   - That a synchronous standby has each event that others see. If a context ends during COMMIT,
//     pgx cancels the wait for the standby, unless you call [NeverCancelCommits].
//
// # What stops the relay
//
// [Relay.Run] ends when its ctx ends, or with an error if waiting cannot help: settings that cannot
// work, tables that are missing, or row security. If the destination or the database is not
// reachable, Run tries again, with growing pauses up to 15 s, and logs that. One bad event does not
// stop the relay: the event fails, and holds back only the later events of its aggregate.
//
// # The tables
//
// The file schema.sql in this directory has the tables, with the reason for each. The view
// outbox_status has one row for each event, for people:
//
//	SELECT status, topic, payload FROM outbox_status WHERE aggregate_id = '17' ORDER BY version
//
// # Servers and connections
//
// It is for PostgreSQL 15 or newer and, with package rabbitmq, RabbitMQ 3.10 or newer. All tests
// run on these two, and the repository's services also on PostgreSQL 18 and RabbitMQ 4.3.
//
// A relay works with a pool of one connection, but then its parts wait for each other. Give it one
// for each of its Workers, and four more: for the probes of paused topics, for leases,
// for what keeps the tables small, and for notifications and [Relay.Backlog], which each scrape of
// package prom calls. One more connection, which does not count in the pool, listens. If requests
// can use up the pool, give the relay a pool of its own.
//
// The role and the database may have any defaults but the search_path: each transaction that this
// package begins states what it needs. Your own must be READ WRITE. If row security is active for
// the role on one of the tables, Run returns an error. If the server is a standby, Run logs that,
// and waits. If the server's queue of notifications is full, a relay finds the events by its poll.
//
// # Rights
//
// [Migrate] needs the right to create tables, and the schema if it is missing. Another role can
// append and relay: the file order-service/migrations/grants.sql of the repository has the rights
// that it needs, column by column, and test/system/database_roles_test.go tries what they forbid.
//
// # Several outboxes, several destinations
//
// No statement names a schema: the search_path does, and [UseSchema] sets it for a pool. So one
// database can have several outboxes, for example one for each tenant: one schema each, with its
// own Migrate, pool and relay. They share no lock and no notification. Append writes to the outbox
// that the search_path of its transaction names, also after SET LOCAL search_path.
//
// An outbox has one destination. For two of them, make two outboxes, or one [publish.Destination]
// that chooses by the topic of each message.
//
// # Upgrades
//
// Migrate applies the migrations that the tables do not have yet. If the tables are newer than the
// program, it does nothing. So migrate first, and then replace the programs one after the other.
// A migration keeps what the release before it uses. If the tables are missing or too old, Append
// returns [ErrNoSchema].
package outbox
