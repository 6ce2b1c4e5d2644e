// Package httpserver serves HTTP until a context ends. It also serves the endpoints for operators:
// liveness, readiness and metrics.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// These are how long requests in flight may take after the shutdown has begun. Those of operators
// end after everything else has ended.
const (
	drainTimeout    = 10 * time.Second
	opsDrainTimeout = 2 * time.Second
)

// Listen opens an address at once, so that a port in use stops the start with a clear error. The
// error begins with name, the setting that the address came from.
func Listen(ctx context.Context, name, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return listener, nil
}

// Serve answers on listener until ctx ends. Then it accepts no more connections. It returns when
// the requests in flight are answered, or after ten seconds. At most limit connections are open;
// further ones wait.
//
// The limits stop a slow or endless client from using up what other clients need.
func Serve(ctx context.Context, listener net.Listener, limit int, handler http.Handler) error {
	server := newServer(handler)
	places := &limited{Listener: listener, taken: make(chan struct{}, limit), closed: make(chan struct{})}
	server.ConnState = places.watch(server)
	return serve(ctx, places, server, drainTimeout)
}

// limited is a listener that stops accepting while all places are taken. netutil.LimitListener
// hides CloseWrite of its connections, which net/http uses: without it, a client whose header is too
// long gets a reset instead of the whole answer.
type limited struct {
	net.Listener
	taken, closed chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.taken <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.taken
	}
	return conn, err
}

// Close is called once, by http.Server.
func (l *limited) Close() error {
	close(l.closed)
	return l.Listener.Close()
}

// watch returns a hook for the server. It gives places back, and closes idle connections while few
// places are left. Otherwise one client could keep all places with idle connections. It does not
// always do so: a request on a connection that is just being closed fails.
func (l *limited) watch(server *http.Server) func(net.Conn, http.ConnState) {
	var mu sync.Mutex // otherwise an older decision could come last
	return func(_ net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch state {
		case http.StateNew:
			if len(l.taken) > cap(l.taken)*3/4 {
				server.SetKeepAlivesEnabled(false) // this also closes those that are idle now
			}
		case http.StateClosed, http.StateHijacked:
			if <-l.taken; len(l.taken) <= cap(l.taken)/2 {
				server.SetKeepAlivesEnabled(true)
			}
		default:
		}
	}
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
}

func serve(ctx context.Context, listener net.Listener, server *http.Server, timeout time.Duration) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	select {
	case err := <-served:
		return fmt.Errorf("serving %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", listener.Addr(), err)
	}
	return nil
}

// ServeDuring answers on address for as long as work runs, and then for two seconds at most. If
// the server fails, the context of work ends. Errors begin with setting, which the address came
// from.
func ServeDuring(ctx context.Context, setting, address string, handler http.Handler, work func(context.Context) error) error {
	listener, err := Listen(ctx, setting, address)
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "answering operators", "address", listener.Addr().String())
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return serve(serving, listener, newServer(handler), opsDrainTimeout) })
	parts.Go(func() error {
		defer stop()
		return work(ctx)
	})
	return parts.Wait()
}
