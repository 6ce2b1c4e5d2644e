// Command bench measures how fast the services are. For comparison, the same run also measures how
// fast the servers are without the services. It prints a table and writes build/bench.json. A
// missed goal is not an error.
//
// It starts its own PostgreSQL and RabbitMQ with their default durability, and runs the services as
// separate processes, with logs. With BENCH_TELEMETRY=true they also export traces to a collector,
// which drops them. Each figure is the median of BENCH_RUNS runs. Compared measurements run in
// turn, so that a machine that becomes slower affects both.
//
// # The figures
//
//   - relay_drain_ratio: events per second that `order-service relay` publishes from a backlog
//     (BENCH_EVENTS; one order in ten has two events), divided by the best rate of publishing the
//     same messages to the same kind of queue without the relay: over 1, 2 or 4 channels, with
//     windows of 100, 500 or 1000 unconfirmed messages. The relay's time runs from its connection
//     to the broker until the backlog is empty.
//
//   - river_drain_ratio, watermill_drain_ratio, only with PEERS=1: the same for River and for
//     Watermill's forwarder, with the settings that their documentation recommends. The time runs
//     from the start of its client until its outbox is empty. _tuned: with the settings of River's
//     own benchmark, and with a channel that Watermill keeps for all messages.
//
//   - relay_rss_mib: resident memory of that relay at the end.
//
//   - post_ratio: POST /orders per second over 16 connections, for BENCH_SECONDS, with the relay
//     in the same process, divided by the rate of the same statements with bare pgx over 16
//     connections.
//
//   - sustained_backlog_s: the unpublished events at the end of that run, in seconds of input.
//
//   - commit_to_publish_ms_p50, _p99: at 200 orders per second, the time from the commit of an
//     order to the mark of its event, which follows the confirm. The commit timestamp is taken
//     before the commit is on disk. Both times come from the database's clock.
//
//   - commit_to_publish_split_ms_p50, _p99: the same with `order-service api` and `order-service
//     relay` as separate processes.
//
//   - post_notify_ratio: POST /orders per second to an API that notifies the relay after commits,
//     divided by the rate of one that does not (OUTBOX_NOTIFY=false). Both run, and are measured
//     in turn. The relay polls every 10 ms, so it is busy in both cases.
//
//   - post_p99_away_ratio: at 200 orders per second, the 99th percentile of the duration of a POST
//     while the broker is stopped, divided by the same with the broker.
//
//   - claim_flatness_pending: the time of a claim of 500 with BENCH_PENDING pending events,
//     divided by the same with 1,000. The claims are those of a relay that publishes to a function,
//     and the relay's own numbers say how long they took. The function adds as many new events as a
//     batch has, so that each backlog keeps its length.
//
//   - claim_flatness_published: the same with BENCH_PUBLISHED published events, divided by none.
//
//   - claim_flatness_blocked: the same with BENCH_BLOCKED events that were due when the first
//     event of their order was blocked, divided by none. The greater one of
//     claim_flatness_backed_off (the first events are tried again later) and claim_flatness_failed
//     (they have failed).
//
//   - claim_flatness_replayed: the same with BENCH_BLOCKED events of one order that wait behind an
//     event that failed and was replayed.
//
//   - claim_flatness_quiet: the same with BENCH_WAITING pending events. PostgreSQL's statistics are
//     those of the empty outbox, as after a quiet time.
//
//   - claim_flatness_held: the same when BENCH_HELD events were published while somebody holds an
//     old snapshot, so that vacuum removes nothing.
//
//   - claim_flatness_topics: the same with 100,000 events of BENCH_TOPICS topics, of which half are
//     paused.
//
//   - claim_ms_pending: the time of such a claim with BENCH_PENDING pending events.
//
//   - slot_flatness: the time that a relay's janitor takes to empty a slot of BENCH_SLOT published
//     events, after all slots have been replaced three times, divided by the same at the beginning.
//
//   - consume_ratio: messages per second that notification-service records from a backlog
//     (BENCH_MESSAGES), divided by the rate of bare pgx that executes the same statements, one
//     message in a transaction, over 8 connections. The service's time runs from the start of its
//     consumer until all e-mails are in its outbox. No e-mail is sent meanwhile.
//
//   - consume_batch_ratio: the same, divided by the rate of bare pgx with batches of 64 over one
//     connection. Bare pgx has no broker and no logs.
//
//   - mail_ratio: e-mails per second from that outbox to a mail server that takes 5 ms for each,
//     divided by the rate of a bare SMTP client with as many connections. The recipients have eight
//     domains.
//
//   - consumer_rss_mib, mail_rss_mib: resident memory of that service at the end of each.
//
//   - order_to_notification_ms_p50, _p99: at 200 orders per second through both services, the time
//     from the commit of an order until its e-mail is marked sent.
//
//   - end_to_end_ratio: after BENCH_END_TO_END_SECONDS of POSTs over 16 connections through both
//     services, the number of sent e-mails divided by the number of orders.
//
//   - whole_way_ratio: e-mails per second in that time, divided by the orders per second of bare
//     pgx, as for post_ratio.
//
//   - capacity_*, only if BENCH_ONLY names it: BENCH_CAPACITY_RATE orders per second, and
//     BENCH_CAPACITY_ADDED further events per second that SQL adds, for
//     BENCH_CAPACITY_EMPTY_SECONDS with an empty log and for BENCH_CAPACITY_SECONDS with a log of
//     BENCH_CAPACITY_EVENTS in seven slots. The service empties one slot each minute. For the first
//     fifth of the time, the three in the middle and the last one: median durations in
//     milliseconds, the backlog, dead rows and the size of the log at the end, and WAL per event.
//
//   - replicas_N_M_at_RATE_*, only if BENCH_ONLY names it: RATE orders per second on N replicas of
//     order-service and M of notification-service, each service with a PostgreSQL of its own. For
//     each order, from the first order until the last e-mail is sent: CPU time by process, WAL and
//     how often it is forced to disk, and what the disk writes for all programs together, without
//     the next checkpoint and for it. And the connections at the end.
//
// The other keys are the rates and times from which the figures are computed.
package main
