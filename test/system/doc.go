// Package system proves what only both services together can show, as real processes. Each test has
// its own databases, virtual host and mail server, on a PostgreSQL and a RabbitMQ that the package
// starts. The tests compare the promises of the README with what arrives: rows, messages, e-mails.
package system
