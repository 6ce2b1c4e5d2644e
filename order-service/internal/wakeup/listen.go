package wakeup

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"example.com/transactional-outbox/internal/postgres"
)

const (
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
	jitter       = 0.2
	// resetAfter is how long a connection must last before the pause is reset.
	resetAfter = 15 * time.Second
)

// Listener wakes the relay of this process at each notification.
type Listener struct {
	url       string
	wake      func()
	listening prometheus.Gauge
	lost      bool // whether the loss of the connection is logged
}

// NewListener returns a listener that does nothing until Run. It opens its own connection to the
// database at url, because a pool's connections cannot listen. wake must not block.
func NewListener(url string, wake func(), registry prometheus.Registerer) *Listener {
	return &Listener{url: url, wake: wake, listening: promauto.With(registry).NewGauge(prometheus.GaugeOpts{
		Name: "outbox_relay_listening",
		Help: "1 while this relay listens for events that other processes commit. Otherwise its poll finds them.",
	})}
}

// Run listens on one connection after the other until ctx ends. It logs each time it begins to
// listen. When it cannot listen, it logs that only once until it listens again.
func (l *Listener) Run(ctx context.Context) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.RandomizationFactor = firstPause, longestPause, jitter
	for {
		start := time.Now()
		err := postgres.Listen(ctx, l.url, channel, func() { l.started(ctx) }, l.wake)
		l.listening.Set(0)
		if ctx.Err() != nil {
			return nil
		}
		if !l.lost {
			slog.WarnContext(ctx, "not listening: the relay finds events of other processes by its poll", "error", err)
		}
		l.lost = true
		if time.Since(start) > resetAfter {
			pause.Reset()
		}
		if !wait(ctx, pause.NextBackOff()) {
			return nil
		}
	}
}

// started also wakes the relay, because events may have been committed before it listened.
func (l *Listener) started(ctx context.Context) {
	slog.InfoContext(ctx, "listening for events of other processes")
	l.lost = false
	l.listening.Set(1)
	l.wake()
}
