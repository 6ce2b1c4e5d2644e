// Package grace gives work that is in hand time to finish after a shutdown began.
package grace

import (
	"context"
	"time"
)

// Period returns a context with the values of ctx that outlives it: it ends the given
// time after ctx has ended. Calling the function ends it at once.
func Period(ctx context.Context, length time.Duration) (context.Context, context.CancelFunc) {
	finish, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(length):
			cancel()
		case <-finish.Done():
		}
	})
	return finish, func() {
		stop()
		cancel()
	}
}
