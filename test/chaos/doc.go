// Command chaos runs both services as real processes, injects faults into everything that they
// depend on, and lets an independent checker decide whether they kept their promises.
//
//	load ─► order-service ×2 ─► PostgreSQL      each connection passes a proxy that
//	             │                              can cut, reset, stall, slow down,
//	             ▼                              and drop replies
//	         RabbitMQ ─► tap
//	             ▼
//	 notification-service ×2 ─► mail server
//
// A scenario is load with a fault. After the fault, the suite waits until the services have
// finished all work. The checker then reads the databases, the tap, the queues, and the ledgers of
// the load and of the mail server.
//
// With CLUSTER=1 there are more servers: three brokers, a standby of PostgreSQL, or PgBouncer.
//
// For scenarios with wrong clocks, the services are built with a modified package time.
package main
