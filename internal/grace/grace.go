// Package grace gives running work time to finish after a shutdown has begun.
package grace

import (
	"context"
	"time"
)

// Period returns a context with the values of ctx. The new context ends a grace period of this
// length after ctx has ended. The function ends it at once.
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
