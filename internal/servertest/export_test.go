package servertest

// Ports returns everything that the broker and its epmd listen on: for AMQP, for other
// nodes, of epmd, and for Prometheus.
func (s *RabbitMQServer) Ports() []int {
	return []int{s.record.Port, s.record.DistPort, s.record.EpmdPort, s.record.MetricsPort}
}

// ReadVersion is tested with answers that no broker gives.
var ReadVersion = readVersion

// NewestFirst is tested with folders that no machine has.
var NewestFirst = newestFirst
