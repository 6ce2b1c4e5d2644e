// Package system proves what only real processes can show: both services together, and what one of
// them may do, on its servers with their roles, permissions and limits. Each test has its own
// databases, virtual host and mail server, on a PostgreSQL and a RabbitMQ that the package starts.
// The tests compare the promises of the README with what arrives: rows, messages, e-mails.
package system
