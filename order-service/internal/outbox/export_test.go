package outbox

// CountExactly sets up to how many events are counted.
func (s *Store) CountExactly(events int) { s.exactly = events }
