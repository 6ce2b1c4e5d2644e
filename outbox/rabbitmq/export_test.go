package rabbitmq

// Check is check, for the tests.
func (m Message) Check() error { return m.check() }

// AfterConfirm calls do when the broker has confirmed the copy of a dead letter.
func AfterConfirm(d *DeadLetters, do func(*Session)) { d.confirmed = func() { do(d.session) } }

// Cut cuts the connection of a session.
func Cut(s *Session) { _ = s.socket.Close() }
