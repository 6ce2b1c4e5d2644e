// Package quietlog is a log that writes a limited number of lines of each message. An outage of an
// hour would otherwise write thousands.
package quietlog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Log limits what Trouble and Step write. What else it is given, it writes.
type Log struct {
	*slog.Logger
	mu      sync.Mutex
	periods map[string]period // of each message
}

// period has lasted since a time, and had so many lines, with those that were left out.
type period struct {
	since time.Time
	lines int
}

// A message may have so many lines in each period.
const (
	logPeriod   = 10 * time.Second
	mostTrouble = 1
	mostSteps   = 3000 // a line costs about 4 µs, which is a lot beside the work for an event
)

// New returns a log that writes to another one.
func New(to *slog.Logger) *Log {
	return &Log{Logger: to, periods: map[string]period{}}
}

// Trouble logs what goes wrong, at most every 10 s. The next line says how many were left out.
func (l *Log) Trouble(ctx context.Context, message string, args ...any) {
	l.limited(ctx, slog.LevelWarn, mostTrouble, message, args)
}

// Step logs a step of one event. At high rates it logs only some of them at level info, and the
// others at level debug.
func (l *Log) Step(ctx context.Context, message string, args ...any) {
	l.limited(ctx, slog.LevelInfo, mostSteps, message, args)
}

func (l *Log) limited(ctx context.Context, level slog.Level, most int, message string, args []any) {
	if !l.Enabled(ctx, level) {
		return
	}
	leftOut, allowed := l.mayWrite(message, most)
	switch {
	case !allowed:
		l.DebugContext(ctx, message, args...) //nolint:sloglint // the callers' messages are constants
	case leftOut > 0:
		l.Log(ctx, level, message, append(args, "lines_left_out", leftOut)...) //nolint:sloglint // the same
	default:
		l.Log(ctx, level, message, args...) //nolint:sloglint // the same
	}
}

// mayWrite reports whether a line of the message may be written now, and how many were left out in
// the period before.
func (l *Log) mayWrite(message string, most int) (leftOut int, allowed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.periods[message]
	if time.Since(p.since) >= logPeriod {
		leftOut = max(0, p.lines-most)
		p = period{since: time.Now()}
	}
	p.lines++
	l.periods[message] = p
	return leftOut, p.lines <= most
}
