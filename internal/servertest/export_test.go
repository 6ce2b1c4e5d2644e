package servertest

// Ports returns everything that the broker and its epmd listen on.
func (s *RabbitMQServer) Ports() []int {
	return []int{s.record.Port, s.record.DistPort, s.record.EpmdPort}
}

// ReadVersion is tested with answers that no broker gives.
var ReadVersion = readVersion

// NewestFirst is tested with folders that no machine has.
var NewestFirst = newestFirst
