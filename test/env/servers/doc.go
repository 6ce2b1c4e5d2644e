// Package servers gives tests real servers.
//
// Most tests share the PostgreSQL and the RabbitMQ that `scripts/stack servers` finds or starts:
// [Database] creates a database for one test, and [BrokerURL] returns the broker. A test that
// stops or kills a server starts a private one, with [Postgres] or [RabbitMQ]. A test that
// needs faults of the network puts a [Proxy] in front of a server.
//
// [RabbitMQCluster] is for test/chaos, because its start takes half a minute. A standby of a
// PostgreSQL is a [PostgresServer] as well, see [NewStandby]. A [PgBouncer] is a pooler in front of
// one.
//
// [PostgresServer] and [RabbitMQServer] do not depend on tests: test/stack runs the whole
// system on them. A server is a folder with its data, log, ports and process. So it stays the
// same server when it is restarted, or when another program opens its folder.
package servers
