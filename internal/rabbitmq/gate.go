package rabbitmq

import (
	"context"
	"log/slog"
	"sync"
)

// gate is closed while the broker blocks its publishers.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed, in Go's sense, while the gate is open
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) set(blocked bool, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch isOpen := g.isOpen(); {
	case blocked && isOpen:
		g.open = make(chan struct{})
		slog.Warn("the broker blocks publishers", "reason", reason)
	case !blocked && !isOpen:
		close(g.open)
		slog.Info("the broker takes messages again")
	}
}

func (g *gate) isOpen() bool {
	select {
	case <-g.open:
		return true
	default:
		return false
	}
}

func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
