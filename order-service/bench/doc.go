// Command bench measures how fast order-service is, and beside each figure how fast
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
//   - claim_flatness_pending: the time of a claim of 500 with BENCH_PENDING events
//     pending, over the same with 1,000. Between two claims the first one is marked
//     published and as many new events come in, so that each backlog keeps its length.
//   - claim_flatness_published: the same with BENCH_PUBLISHED events published, over none.
//   - claim_flatness_blocked: the same with BENCH_BLOCKED events that are due, each
//     behind an older one of its order that has backed off before it came, over none.
//
// claim_flatness_rescheduled is one more: the blocked events were there when the older
// one backed off, through Store.Reschedule. The further keys are the rates and times
// that the figures are made of.
package main
