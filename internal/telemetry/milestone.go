package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Milestone logs a step of one order or one message at level info. All steps of an order have
// its trace id. A line costs about 4 µs, which is a lot beside the work for a message. So a
// process writes at most [milestonesPerSecond] of these lines, and [milestoneBurst] at once after
// a quiet time. It writes the others at level debug. A warning says once a second how many
// were left out.
func Milestone(ctx context.Context, message string, args ...any) {
	milestones.log(ctx, message, args...)
}

const (
	milestonesPerSecond = 300 // about 100 orders: a service writes 2 or 3 lines for each
	milestoneBurst      = 3000
)

var milestones = newRateLimited(milestonesPerSecond, milestoneBurst)

// rateLimited is a log that writes a limited number of lines.
type rateLimited struct {
	lines   *rate.Limiter
	leftOut atomic.Int64 // since the last warning
}

func newRateLimited(perSecond rate.Limit, burst int) *rateLimited {
	return &rateLimited{lines: rate.NewLimiter(perSecond, burst)}
}

func (l *rateLimited) log(ctx context.Context, message string, args ...any) {
	logger := slog.Default()
	switch {
	case !logger.Enabled(ctx, slog.LevelInfo):
	case l.lines.Allow():
		logger.InfoContext(ctx, message, args...) //nolint:sloglint // the callers' messages are constants
	case logger.Enabled(ctx, slog.LevelDebug):
		logger.DebugContext(ctx, message, args...) //nolint:sloglint // the same
	case l.leftOut.Add(1) == 1:
		time.AfterFunc(time.Second, l.warn)
	}
}

func (l *rateLimited) warn() {
	slog.Warn("log lines were left out, because there were too many: LOG_LEVEL=debug writes all", "lines_left_out", l.leftOut.Swap(0))
}
