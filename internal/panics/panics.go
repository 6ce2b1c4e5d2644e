// Package panics turns a panic of background work into an error. Without it, the panic ends the
// process. A fault of the page must not end the relay or the consumer in the same process.
package panics

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Catch calls work and returns its error. If work panics, Catch logs the panic and returns it as an
// error. Work must release locks and connections with defer, which also runs during a panic.
func Catch(ctx context.Context, work func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			slog.ErrorContext(ctx, "panic in background work", "error", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return work()
}
