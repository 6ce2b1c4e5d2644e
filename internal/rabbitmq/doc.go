// Package rabbitmq keeps connections to the broker, and publishes and consumes on
// them. It is the only package that knows the client library.
//
// # Sessions
//
// [Keep] runs work on a connection, and runs it again on the next one when the
// broker comes and goes. A [Session] is one connection with the channels opened on
// it. It is given to the work as a parameter, and the work's context ends with it,
// so nothing can use a connection that is no more.
//
// The client library can reconnect by itself (Config.Recovery). That stays off: it
// keeps the Channel objects and numbers deliveries from 1 again, so that an Ack
// from before the cut acknowledges whatever message has that number now. That
// message is then lost. Without recovery the late Ack is refused, and the broker
// delivers again what was not acknowledged.
//
// # Publishing
//
// Every message is persistent and mandatory, and its channel is in confirm mode. A
// message counts as delivered when the broker confirmed it and did not return it:
// one that no queue is bound for is confirmed as well. When the broker does not
// say, [Unknown] is the outcome, and only publishing again, with the same id, is
// safe.
//
// # A broker that blocks
//
// With a memory or disk alarm the broker stops reading from its publishers. It
// says so ([Session.Unblocked] waits for the end of it); in case it cannot, each
// write has a deadline, and closing does not wait for an answer for ever.
//
// # What it does not promise
//
// That a message is published once. And it knows one broker address: a cluster
// stands behind a load balancer or a name.
package rabbitmq
