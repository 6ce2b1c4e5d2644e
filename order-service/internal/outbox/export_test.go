package outbox

// SetCountLimit sets up to how many events Backlog counts.
func (s *Store) SetCountLimit(events int) { s.countLimit = events }
