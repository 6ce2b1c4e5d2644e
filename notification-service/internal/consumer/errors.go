package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"example.com/transactional-outbox/internal/postgres"
)

// Permanent is an error that no repeat mends: the message is a dead letter. An
// [Effect] may return one from any of its methods.
type Permanent interface {
	error
	// DeadLetterCode says why, from a small set: "malformed", for one.
	DeadLetterCode() string
}

// Unavailable is an error of what the message needs, and not of the message: it is
// held until that is back.
type Unavailable interface {
	error
	// Dependency is what is away: a name of [Config.Probes].
	Dependency() string
}

// OwnFault may be a method of an [Unavailable] error: what the error is for a message that
// meets it again and again while others are accepted, or nil.
type OwnFault interface{ OwnFault() error }

// Unclear is an error that may be the fault of what every message needs, or the message's
// own. What other messages meet decides.
type Unclear interface {
	error
	// Dependency is what may be at fault: a name of [Config.Probes].
	Dependency() string
	// Otherwise is the error if that is not at fault.
	Otherwise() error
}

// Deferred is an error that says: this message is put off while others are taken. It comes
// again later, and that spends no retry.
type Deferred interface {
	error
	Deferred()
}

// Elsewhere is an error that says: another process has the lease for this message. That
// process may be dead. The message comes again later, and that spends no retry. After
// maxElsewhere times it becomes a dead letter.
type Elsewhere interface {
	error
	HeldElsewhere()
}

// Database is the dependency that every message has.
const Database = "database"

// deadLetterError is a Permanent of the consumer's own.
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
	malformed        = "malformed"         // it cannot be read
	panicked         = "panicked"          // handling it panicked
	retriesExhausted = "retries-exhausted" // it failed after its last retry
	neverCompleted   = "never-completed"   // it found another delivery of it in hand, again and again

	// TooLarge is a body that the consumer does not parse. The broker moves it, so the
	// code is not in its headers.
	TooLarge = "too_large"

	// OutsideDedupeWindow is so old that a repeat cannot be told from a first time.
	OutsideDedupeWindow = "outside-dedupe-window"
)

// heldElsewhereError is an Elsewhere.
type heldElsewhereError struct{ error }

// HeldElsewhere makes it Elsewhere.
func (heldElsewhereError) HeldElsewhere() {}

// unavailableError is the database's Unavailable.
type unavailableError struct{ error }

// Dependency makes it Unavailable.
func (unavailableError) Dependency() string { return Database }

// Unwrap returns the reason.
func (u unavailableError) Unwrap() error { return u.error }

// unclearError is the database's Unclear.
type unclearError struct{ cause error }

// Error is the reason.
func (u unclearError) Error() string { return u.cause.Error() }

// Dependency makes it Unclear.
func (unclearError) Dependency() string { return Database }

// Otherwise is the error of a message that failed now.
func (u unclearError) Otherwise() error { return u.cause }

// ofDatabase finds out whether err is the database's fault, unless somebody who knows
// better has said what it is.
func ofDatabase(err error) error {
	_, permanent := errors.AsType[Permanent](err)
	switch {
	case permanent, !postgres.Unavailable(err):
		return err
	case postgres.Contended(err):
		return unclearError{err}
	default:
		return unavailableError{err}
	}
}

// certainlyUnavailable reports whether every message would meet err. An [Unclear] error
// names its dependency as well, and is not certain.
func certainlyUnavailable(err error) bool {
	if err == nil {
		return false
	}
	err = ofDatabase(err)
	_, isAway := errors.AsType[Unavailable](err)
	_, isUnclear := errors.AsType[Unclear](err)
	return isAway && !isUnclear
}

// recovered turns a panic into a dead letter: a bug that one message finds must not
// end the others. Call it deferred.
func recovered(ctx context.Context, err *error) {
	if cause := recover(); cause != nil {
		slog.ErrorContext(ctx, "panic while handling a message", "error", cause, "stack", string(debug.Stack()))
		*err = deadLetterError{fmt.Errorf("panic: %v", cause), panicked}
	}
}
