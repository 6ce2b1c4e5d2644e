package publisher

import (
	"context"
	"errors"
	"log/slog"

	"example.com/transactional-outbox/outbox/publish"
)

// Destination is JetStream as a relay needs it: a [publish.Destination].
type Destination struct {
	Config
	// Stream is declared at the begin of each session.
	Stream Stream
	// Monitoring has the addresses of all servers that may lead the streams: see
	// [Session.CheckDurable].
	Monitoring []string
	// AllowUnsynced publishes also to a server that may lose messages which it has confirmed.
	AllowUnsynced bool
}

// System is the name of NATS in spans.
func (d Destination) System() string { return "nats" }

// Name is the first part of the subjects.
func (d Destination) Name() string { return d.Subject }

// KeepConnected checks the server and declares the stream at the begin of each session, and then
// calls use. It returns an error if the server or the stream loses messages that it has confirmed.
func (d Destination) KeepConnected(ctx context.Context, use func(context.Context, publish.Session) error) error {
	return KeepConnected(ctx, d.Config, func(ctx context.Context, s *Session) error {
		if err := d.requireDurable(ctx, s); err != nil {
			return err
		}
		if err := s.Declare(ctx, d.Stream); err != nil {
			return err
		}
		slog.InfoContext(ctx, "publishing", "destination", d.Subject)
		return use(ctx, s)
	})
}

// requireDurable returns a [PermanentError] if the server may lose messages that it has confirmed,
// unless a setting allows that. Each session is checked: the server may have another configuration
// by now.
func (d Destination) requireDurable(ctx context.Context, s *Session) error {
	err := s.CheckDurable(ctx, d.Monitoring)
	switch {
	case err == nil:
		return nil
	case d.AllowUnsynced:
		slog.WarnContext(ctx, "promise P3 does not hold: the server may lose messages that it has confirmed, when its power fails", "error", err)
		return nil
	case errors.Is(err, ErrNotDurable):
		return PermanentError{Err: err}
	default:
		return err
	}
}
