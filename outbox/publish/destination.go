package publish

import "context"

// Destination is where a relay delivers its messages. Package rabbitmq has one for an exchange.
// [Func] makes one of a function.
type Destination interface {
	// System is OpenTelemetry's messaging.system, such as rabbitmq.
	System() string
	// Name is for spans and logs, such as the exchange.
	Name() string
	// KeepConnected opens a session and calls use. When use has returned, it does so again, with
	// growing pauses, until ctx ends. Then it returns nil. It returns an error that no new session
	// can solve, such as a wrong URL. An outage is not such an error.
	//
	// The context of use ends with its session, or with ctx. Then use must return. If ctx has ended,
	// the session still works, so that use can finish what is in flight.
	KeepConnected(ctx context.Context, use func(ctx context.Context, s Session) error) error
}
