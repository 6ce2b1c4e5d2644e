package page

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"example.com/transactional-outbox/internal/page/users"
)

// Role says what a user may do.
type Role = users.Role

// A user with the role Operate may also do everything that needs the role Read.
const (
	Read    = users.Read    // see everything except personal data
	Operate = users.Operate // see personal data, and decide
)

// User is who sent a request.
type User = users.User

// Request is a request of a user whose role is sufficient.
type Request struct {
	*http.Request
	User User
}

// Handler answers a request with a page or a redirect. Its context ends after [QueryTimeout].
type Handler func(ctx context.Context, r *Request) (Result, error)

// Result is a page, or a redirect.
type Result struct {
	Status   int // 0: 200
	Title    string
	Parts    []Part
	Refresh  time.Duration // the browser loads the page again after this time; 0: never
	Redirect string        // a path of this page; the rest is then ignored
}

// Show returns a page.
func Show(title string, parts ...Part) Result { return Result{Title: title, Parts: parts} }

// Redirect returns a redirect to a path of this page. The browser gets it with GET.
func Redirect(path string) Result { return Result{Redirect: path} }

// Error is an error for the user.
type Error struct {
	Status int    // of HTTP
	Text   string // says what is wrong and what to do; it names the field
	Cause  error  // for the log only; may be nil
}

// Error returns the text with the cause, for the log.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Text
	}
	return e.Text + " The cause: " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf returns an error that is shown to the user.
func Errorf(status int, format string, args ...any) error {
	return &Error{Status: status, Text: fmt.Sprintf(format, args...)}
}
