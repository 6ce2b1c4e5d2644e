package mailer

import (
	"errors"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
)

// stepError is a step that failed.
type stepError struct {
	step   string
	code   int        // of the server's reply (RFC 5321, section 4.2); 0: no valid reply
	status statusCode // of the reply (RFC 3463)
	cause  error
}

// Error is the step and the error, in one line.
func (e *stepError) Error() string {
	return e.step + ": " + strings.ReplaceAll(e.cause.Error(), "\n", " ")
}

// Unwrap returns the error.
func (e *stepError) Unwrap() error { return e.cause }

func newStepError(step string, cause error) *stepError {
	e := &stepError{step: step, cause: cause}
	if reply, ok := errors.AsType[*textproto.Error](cause); ok && (reply.Code/100 == 4 || reply.Code/100 == 5) {
		e.code, e.status = reply.Code, parseStatus(reply)
	}
	return e
}

// statusCode is the subject and the detail of an enhanced status code; both are 0 without
// one. Its class is the first digit of the reply code.
type statusCode struct{ subject, detail int }

var enhanced = regexp.MustCompile(`^([45])\.(\d{1,3})\.(\d{1,3})(?:\s|$)`)

// parseStatus ignores a code that contradicts the reply (RFC 2034, section 4).
func parseStatus(reply *textproto.Error) (s statusCode) {
	found := enhanced.FindStringSubmatch(reply.Msg)
	if found == nil || found[1] != strconv.Itoa(reply.Code/100) {
		return statusCode{}
	}
	s.subject, _ = strconv.Atoi(found[2])
	s.detail, _ = strconv.Atoi(found[3])
	return s
}

// isConnectionBroken reports whether the connection cannot be used after err.
func isConnectionBroken(err error) bool {
	e, ok := errors.AsType[*stepError](err)
	return ok && (e.code == 0 || e.code == 421)
}

// retryOnNewConnection reports whether the steps may be repeated over a new connection. That is
// so if err may come from the age of the idle one, and the server cannot have the e-mail. An
// error up to MAIL does not depend on the e-mail.
func retryOnNewConnection(err error) bool {
	e, ok := errors.AsType[*stepError](err)
	if !ok || e.step == stepDot {
		return false
	}
	return isConnectionBroken(err) || e.step == stepReset || e.step == stepMail || e.step == stepNoop
}
