// Package systemtest runs both services as real processes, on a PostgreSQL and a
// RabbitMQ of its own, with a mail server that keeps a ledger, and holds the
// promises of the README against what comes out at the ends.
package systemtest
