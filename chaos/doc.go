// Command chaos runs both services as real processes, breaks what they stand on, and
// lets an independent checker decide whether they kept their promises.
//
//	load ─► order-service ×2 ─► PostgreSQL      each arrow goes through a proxy
//	             │                              that can cut, reset, stall, slow down
//	             ▼                              and drop replies
//	         RabbitMQ ─► tap
//	             ▼
//	 notification-service ×2 ─► mail server
//
// A scenario is load with a fault in the middle. Then all is quiet, and the checker
// reads what is left: the databases, the tap, the queues, and the ledgers of the load
// and of the mail server.
//
// A clock cannot be moved from outside; but a service can be built with one that is
// wrong, for all of its code and its libraries.
package main
