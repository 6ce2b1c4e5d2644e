package servers

// Ports returns all ports of the broker: for AMQP, for other nodes, of epmd, and for
// Prometheus.
func (s *RabbitMQServer) Ports() []int {
	return []int{s.record.Port, s.record.DistPort, s.record.EpmdPort, s.record.MetricsPort}
}

// ReadVersion lets a test use answers that no broker gives.
var ReadVersion = readVersion

// NewestFirst lets a test use other folders than those of the packages.
var NewestFirst = newestFirst
