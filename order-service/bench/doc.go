// Command bench measures how fast the services are, and beside each figure how fast
// the machine under it is, with the same client in the same run. It prints a table
// and writes build/bench.json. A figure that misses its goal is no error.
//
// It starts a PostgreSQL and a RabbitMQ of its own, as durable as they come, and runs
// order-service as it is shipped: a process, with its log and its traces, which a
// collector takes and drops. Each figure is the median of BENCH_RUNS runs; what is
// compared is run by turns, so that a machine that becomes slower does so for both.
//
// # The figures
//
//   - relay_drain_ratio: events per second that `order-service relay` drains from a
//     backlog (BENCH_EVENTS, one order in ten with two events), from its connection to
//     the broker until nothing is left, over the best rate of publishing the same
//     messages to the same kind of queue: 1, 2 or 4 channels, 100, 500 or 1000
//     messages sent before their confirms are waited for.
//   - relay_rss_mib: resident memory of that relay when the backlog is drained.
//   - post_ratio: POST /orders per second over 16 connections, for BENCH_SECONDS, with
//     the relay in the same process, over the rate of the same statements by bare pgx
//     over 16 connections.
//   - sustained_backlog_s: at the end of that POST, the events that are not published,
//     in seconds of input.
//   - commit_to_publish_ms_p50, _p99: at 200 orders per second, from the commit of an
//     order (PostgreSQL's commit timestamp, taken before the commit is on disk) to the
//     mark of its event, which follows the confirm. Both by the database's clock.
//   - post_p99_away_ratio: at 200 orders per second, the 99th percentile of how long a
//     POST takes while the broker is stopped, over the same while it is there.
//   - claim_flatness_pending: the time of a claim of 500 with BENCH_PENDING events
//     pending, over the same with 1,000. Between two claims the first one is marked
//     published and as many new events come in, so that each backlog keeps its length.
//   - claim_flatness_published: the same with BENCH_PUBLISHED events published, over none.
//   - claim_flatness_blocked: the same with BENCH_BLOCKED events that were due when the
//     first one of their order was set back, over none. The worse of two:
//     claim_flatness_backed_off, behind events that Store.Reschedule backed off, and
//     claim_flatness_failed, behind events that Store.Fail gave up.
//   - prune_flatness: the time to prune 1,000 events after all of BENCH_PRUNED published events
//     have been replaced twice, day by day, over the same before: what costs is what goes,
//     and not what has been there.
//   - consume_ratio: messages per second that notification-service handles from a backlog
//     (BENCH_MESSAGES), with e-mails that go to its log, from its first look at the queue
//     until all are done, over the rate of the same statements by bare pgx, over as many
//     connections as the service has workers.
//   - consumer_rss_mib: resident memory of that service when the backlog is done.
//   - order_to_notification_ms_p50, _p99: at 200 orders per second through both
//     services, from the commit of an order to the note that its e-mail was sent.
//
// The further keys are the rates and times that the figures are made of.
package main
