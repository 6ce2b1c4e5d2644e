package consumer

// Permanent is an error that another try cannot fix: the message becomes a dead letter. Any
// method of an [Effect] may return one.
type Permanent interface {
	error
	// DeadLetterCode says why, from a small set: "malformed", for example.
	DeadLetterCode() string
}

// Unavailable is an error of a dependency, and not of the message. The message is held until
// the dependency is back.
type Unavailable interface {
	error
	// Dependency is what is unavailable: a name of [Config.Probes].
	Dependency() string
}

// OwnFault may be a method of an [Unavailable] error. If the message meets such errors again and
// again while others succeed, this is its own error. It is nil if the message cannot be at fault.
type OwnFault interface{ OwnFault() error }

// Unclear is an error that may be the dependency's fault or the message's own. The results of
// other messages decide.
type Unclear interface {
	error
	// Dependency is what may be at fault: a name of [Config.Probes].
	Dependency() string
	// MessageError is the error if the message is at fault.
	MessageError() error
}

// Deferred is an error that says: this message is to come later, although others are accepted
// now. It is tried again later, and that spends no retry.
type Deferred interface {
	error
	Deferred()
}

// LeasedElsewhere is an error that says: another process has the lease for this message. That
// process may be dead. The message is tried again later, and that spends no retry. After
// maxElsewhere times it becomes a dead letter.
type LeasedElsewhere interface {
	error
	LeasedElsewhere()
}

// Database is the name of the database as a dependency.
const Database = "database"

// deadLetterError is the consumer's Permanent.
type deadLetterError struct {
	error
	code string
}

// DeadLetterCode makes it Permanent.
func (d deadLetterError) DeadLetterCode() string { return d.code }

// Unwrap returns the reason.
func (d deadLetterError) Unwrap() error { return d.error }

// The codes of the consumer's own dead letters.
const (
	malformed        = "malformed"         // the message cannot be read
	panicked         = "panicked"          // its handler panicked
	retriesExhausted = "retries-exhausted" // it failed after its last retry
	neverCompleted   = "never-completed"   // another process had the lease, again and again

	// TooLarge is for a body that the consumer does not parse. The broker moves the message, so
	// the code is not in its headers.
	TooLarge = "too_large"

	// OutsideDedupeWindow is for a message so old that it may be a duplicate: the inbox has
	// forgotten it.
	OutsideDedupeWindow = "outside-dedupe-window"
)

// leasedElsewhereError is a LeasedElsewhere.
type leasedElsewhereError struct{ error }

// LeasedElsewhere makes it LeasedElsewhere.
func (leasedElsewhereError) LeasedElsewhere() {}

// unavailableError is the database's Unavailable.
type unavailableError struct {
	error
	own error // see OwnFault
}

// Dependency makes it Unavailable.
func (unavailableError) Dependency() string { return Database }

// OwnFault is the error if the message may be at fault after all, else nil.
func (u unavailableError) OwnFault() error { return u.own }

// Unwrap returns the reason.
func (u unavailableError) Unwrap() error { return u.error }

// unclearError is the database's Unclear.
type unclearError struct{ cause error }

// Error is the reason.
func (u unclearError) Error() string { return u.cause.Error() }

// Dependency makes it Unclear.
func (unclearError) Dependency() string { return Database }

// MessageError makes it transient.
func (u unclearError) MessageError() error { return u.cause }
