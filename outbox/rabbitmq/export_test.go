package rabbitmq

// Check is check, for the tests.
func (m Message) Check() error { return m.check() }
