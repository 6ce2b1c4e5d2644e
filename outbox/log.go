package outbox

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// lines is a log that writes a limited number of lines of each message. An outage of an hour would
// otherwise write thousands.
type lines struct {
	*slog.Logger
	mu      sync.Mutex
	budgets map[string]*budget
}

// budget is how many lines of a message may be written now. It grows with time.
type budget struct {
	left    float64
	at      time.Time
	leftOut int // lines since the last one that was written
}

const (
	// troubleEvery is the least time between two lines about the same trouble.
	troubleEvery = 10 * time.Second
	// A step of one message is logged too, but a line costs about 4 µs, which is a lot beside the
	// work for a message.
	stepsPerSecond = 300
	stepBurst      = 3000
)

func newLines(to *slog.Logger) *lines {
	return &lines{Logger: to, budgets: map[string]*budget{}}
}

// trouble logs what goes wrong, at most every 10 s. The next line says how many were left out.
func (l *lines) trouble(ctx context.Context, level slog.Level, message string, args ...any) {
	l.limited(ctx, level, troubleEvery.Seconds(), 1, message, args)
}

// step logs a step of one event. At high rates it logs only some of them at level info, and the
// others at level debug.
func (l *lines) step(ctx context.Context, message string, args ...any) {
	l.limited(ctx, slog.LevelInfo, 1.0/stepsPerSecond, stepBurst, message, args)
}

func (l *lines) limited(ctx context.Context, level slog.Level, every, burst float64, message string, args []any) {
	if !l.Enabled(ctx, level) {
		return
	}
	leftOut, allowed := l.spend(message, every, burst)
	switch {
	case !allowed:
		l.DebugContext(ctx, message, args...) //nolint:sloglint // the callers' messages are constants
	case leftOut > 0:
		l.Log(ctx, level, message, append(args, "lines_left_out", leftOut)...) //nolint:sloglint // the same
	default:
		l.Log(ctx, level, message, args...) //nolint:sloglint // the same
	}
}

// spend takes a line from the message's budget, if there is one.
func (l *lines) spend(message string, every, burst float64) (leftOut int, allowed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	b := l.budgets[message]
	if b == nil {
		b = &budget{left: burst, at: now}
		l.budgets[message] = b
	}
	b.left = min(burst, b.left+now.Sub(b.at).Seconds()/every)
	b.at = now
	if b.left < 1 {
		b.leftOut++
		return 0, false
	}
	b.left--
	leftOut, b.leftOut = b.leftOut, 0
	return leftOut, true
}
