// Command bench measures how fast the services are, and how much CPU time they need. The same run
// also measures bare programs, which do the same without the services. It prints the median, the
// lowest and the highest value of BENCH_RUNS runs, and writes them to build/bench.json. A missed
// goal is not an error.
//
// It starts its own PostgreSQL and RabbitMQ with their default durability, and runs the services as
// separate processes, with logs. Measurements that are compared run in turn, because a machine
// changes its speed.
//
// # The workloads
//
// An operation is one event, order, message or e-mail. Each workload has its rate (_per_s), and the
// CPU time for an operation by process (_cpu_us_). PostgreSQL, the broker and a service count with
// all processes that they have started. The client is this program: it is the HTTP client, the bare
// programs and the mail server. _ratio and _cpu_ratio compare with the bare program, _rss_mib is
// the resident memory of the services at the end.
//
//   - drain: `order-service relay` publishes a backlog of BENCH_EVENTS; one order in ten has two
//     events. The time runs from its connection to the broker until the queue is empty.
//     bare_publish publishes the same messages to the same kind of queue.
//
//   - post: POST /orders over 16 connections for BENCH_SECONDS, with the relay in the same process,
//     until the last event is published. bare_pgx executes the statements of an order and the
//     library's Append over 16 connections, and publishes nothing.
//
//   - whole_way, with post: the same with notification-service, until its last e-mail is in the
//     log.
//
//   - paced: as post, but 200 orders per second for BENCH_PACED_SECONDS. commit_to_publish_ms_p50
//     is the time from the commit of an order to the mark of its event, which follows the confirm.
//     The commit timestamp is taken before the commit is on disk. Both times come from the
//     database's clock.
//
//   - consume: notification-service records a backlog of BENCH_MESSAGES. The time runs from the
//     start of its consumer until all e-mails are in its outbox. No e-mail is sent meanwhile.
//     bare_batch has no broker and no logs: it is the library's inbox, the order's progress and the
//     library's Append, in batches of 64 over one connection.
//
//   - mail, with consume: these e-mails, except those that a newer one supersedes, to a mail server
//     that takes 5 ms for each. The recipients have eight domains. bare_mail is an SMTP client with
//     as many connections.
//
// fsyncs_per_s is how often the disk makes 8 KiB durable, measured before each run.
//
// # Two trees
//
// BASE=COMMIT compares the CPU time of this tree with that of a commit, which must know BASE too.
// The commit's own bench measures on the same servers, in turn with this one: seven shorter runs of
// each after one that does not count, without bare programs. It prints the ratio in these pairs, and
// writes no file. Of 64 rows without a difference, one has all its ratios on one side of 1 by chance.
package main
