// Command bench measures how fast the services are. For comparison, the same run also measures how
// fast the servers are without the services. It prints a table and writes build/bench.json. A
// missed goal is not an error.
//
// It starts its own PostgreSQL and RabbitMQ with their default durability, and runs the services as
// separate processes, with logs. Each figure is the median of BENCH_RUNS runs. Compared
// measurements run in turn, so that a machine that becomes slower affects both.
//
// # The figures
//
//   - relay_drain_ratio: events per second that `order-service relay` publishes from a backlog
//     (BENCH_EVENTS; one order in ten has two events), divided by the best rate of publishing the
//     same messages to the same kind of queue without the relay: over 1, 2 or 4 channels, with
//     windows of 100, 500 or 1000 unconfirmed messages. The relay's time runs from its connection
//     to the broker until the backlog is empty.
//
//   - relay_rss_mib: resident memory of that relay at the end.
//
//   - post_ratio: POST /orders per second over 16 connections, for BENCH_SECONDS, with the relay
//     in the same process, divided by the rate of bare pgx over 16 connections, which executes the
//     statements of an order and the library's Append.
//
//   - sustained_backlog_s: the unpublished events at the end of that run, in seconds of input.
//
//   - commit_to_publish_ms_p50, _p99: at 200 orders per second, the time from the commit of an
//     order to the mark of its event, which follows the confirm. The commit timestamp is taken
//     before the commit is on disk. Both times come from the database's clock.
//
//   - post_p99_away_ratio: at 200 orders per second, the 99th percentile of the duration of a POST
//     while the broker is stopped, divided by the same with the broker.
//
//   - consume_ratio: messages per second that notification-service records from a backlog
//     (BENCH_MESSAGES), divided by the rate without broker and logs: the library's inbox, the
//     order's progress and the library's Append, one message in a transaction, over 8 connections.
//     The service's time runs from the start of its consumer until all e-mails are in its outbox.
//     No e-mail is sent meanwhile.
//
//   - consume_batch_ratio: the same, divided by the rate with batches of 64 over one connection.
//
//   - mail_ratio: e-mails per second from that outbox to a mail server that takes 5 ms for each,
//     divided by the rate of a bare SMTP client with as many connections. The recipients have eight
//     domains.
//
//   - consumer_rss_mib, mail_rss_mib: resident memory of that service at the end of each.
//
//   - end_to_end_ratio: after BENCH_END_TO_END_SECONDS of POSTs over 16 connections through both
//     services, the number of sent e-mails divided by the number of orders.
//
//   - whole_way_ratio: e-mails per second in that time, divided by the orders per second of bare
//     pgx, as for post_ratio.
//
// The other keys are the rates and times from which the figures are computed.
package main
