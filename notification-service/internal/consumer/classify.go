package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"example.com/transactional-outbox/internal/postgres"
)

// maxFailures is how often a message may meet an error that is certainly the dependency's,
// while others succeed in between. Beyond this many, the error is the message's own.
const maxFailures = 5

// classify finds out whose fault an error is. It returns errTryAgain if the dependency is at
// fault, or if that is not known yet. Otherwise it returns the message's own error.
func (d *delivery) classify(p *permit, h *failureHistory, err error) error {
	unavailable, isUnavailable := errors.AsType[Unavailable](err)
	unclear, isUnclear := errors.AsType[Unclear](err)
	switch {
	case d.held.Err() != nil && (isUnavailable || isUnclear):
		return context.Cause(d.held)
	case isUnclear && unclear.Dependency() == p.name:
		slog.WarnContext(d.ctx, "message held", "message_id", d.ID, "dependency", p.name, "error", err)
		d.markWaiting()
		if p.failUnclear(d.held, h, err) {
			return unclear.MessageError()
		}
	case isUnavailable && unavailable.Dependency() == p.name:
		if p.failMessage(d.held, h, err) >= maxFailures {
			if own := ownFault(err); own != nil {
				return fmt.Errorf("it failed %d times while others were accepted: %w", maxFailures, own)
			}
		}
	default:
		return err
	}
	return fmt.Errorf("%w: %w", errTryAgain, err)
}

func ownFault(err error) error {
	own, ok := errors.AsType[interface {
		error
		OwnFault
	}](err)
	if !ok {
		return nil
	}
	return own.OwnFault()
}

// classifyDatabase finds out whether err is the database's fault. A [Permanent] error stays
// what it is, and so does an error that blames the values of the message.
//
// The statements are the same for all messages. So a missing privilege or table concerns all of
// them, and closes the gate at once, like an I/O error or corrupt data. If only the rows of one
// message are corrupt, it fails again and again while others succeed. Then it is at fault.
func classifyDatabase(err error) error {
	_, permanent := errors.AsType[Permanent](err)
	switch {
	case permanent:
		return err
	case postgres.Unavailable(err) && !postgres.Contended(err):
		return unavailableError{error: err}
	case postgres.Faulty(err):
		return unavailableError{error: err, own: err}
	case postgres.Unavailable(err), postgres.MayConcernOthers(err):
		return unclearError{err}
	default:
		return err
	}
}

// isDatabaseDown reports whether every message would meet err. An [Unclear] error names its
// dependency as well, and is not certain. Nor is one that may be a message's own fault.
func isDatabaseDown(err error) bool {
	if err == nil {
		return false
	}
	down, isUnavailable := errors.AsType[unavailableError](classifyDatabase(err))
	return isUnavailable && down.own == nil
}

// recoverPanic turns a panic into a permanent error. A bug in the handling of one message must
// not end the others. Call it deferred.
func recoverPanic(ctx context.Context, err *error) {
	if cause := recover(); cause != nil {
		slog.ErrorContext(ctx, "panic while handling a message", "error", cause, "stack", string(debug.Stack()))
		*err = deadLetterError{fmt.Errorf("panic: %v", cause), panicked}
	}
}
