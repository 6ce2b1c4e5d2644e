// Package gate makes goroutines wait while something that they all need is unavailable.
package gate

import (
	"context"
	"sync"
)

// Gate is open or closed. While it is open, Wait returns at once. While it is closed, Wait blocks.
type Gate struct {
	mu   sync.Mutex
	open chan struct{} // this channel is closed while the gate is open
}

// New returns an open gate.
func New() *Gate {
	g := &Gate{open: make(chan struct{})}
	close(g.open)
	return g
}

// Open opens the gate, and reports whether it was closed.
func (g *Gate) Open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen() {
		return false
	}
	close(g.open)
	return true
}

// Close closes the gate, and reports whether it was open.
func (g *Gate) Close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() {
		return false
	}
	g.open = make(chan struct{})
	return true
}

// IsOpen reports whether Wait would return at once.
func (g *Gate) IsOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isOpen()
}

func (g *Gate) isOpen() bool {
	select {
	case <-g.open:
		return true
	default:
		return false
	}
}

// Wait returns nil as soon as the gate is open, even if ctx has ended. If ctx ends while the gate
// is closed, Wait returns the cause of ctx.
func (g *Gate) Wait(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	default:
	}
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
