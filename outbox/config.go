package outbox

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/internal/relay"
	"example.com/transactional-outbox/outbox/internal/store"
)

// RelayConfig has the settings of a [Relay]. The zero value of each field is its default.
type RelayConfig struct {
	// AppID is the name of the service that publishes. Each message has it.
	AppID string
	// Workers is how many workers publish in parallel. Each one uses a connection of the pool while
	// it claims or settles. One more renews the leases. The default is 2.
	Workers int
	// Window is how many events of a worker may wait for their answers. As soon as half of it is
	// free, the worker claims more. A relay begins with one event for all workers, and doubles that
	// with each batch that is answered, but only as far as the answers come well within ConfirmTimeout.
	// It begins again if several events are lost together, or have no answer in time. The default is
	// 2000.
	Window int
	// PollInterval is how often a worker looks for events, even if nothing wakes it. The default
	// is 1 s.
	PollInterval time.Duration
	// Lease is how long a claim is valid without being renewed. After a crash, the events that were in
	// flight are published that much later. It is renewed each second, and must be at least 5 s, as
	// long as the first attempt of a statement may take. The default is 20 s.
	Lease time.Duration
	// SettleAfter is how long answered events wait for the answers to the others of their claim,
	// before they are marked. The default is 100 ms.
	SettleAfter time.Duration
	// SlowAfter is how long the relay waits for an answer. If nothing of the event's topic was taken
	// meanwhile, the topic pauses, and the event gives up its place in the window. The default is 1 s.
	// A destination that answers one by one ([publish.OneByOne], as [publish.Func]) has no such limit.
	// Then it only bounds how long the probe of a topic keeps others from being tried.
	SlowAfter time.Duration
	// ConfirmTimeout is how long an event waits for its answer after it was sent, if the destination
	// does not answer one by one. The default is 10 s.
	ConfirmTimeout time.Duration
	// NoAnswerPauses are the pauses of an event that has had no answer; the last one repeats. Give
	// long ones if the destination cannot recognise a message that it gets twice, as a mail server.
	// Then no answer counts as a refusal. By default the event waits as one that was refused, and
	// never fails for that.
	NoAnswerPauses []time.Duration
	// DurableMarks makes the marks of published events wait for the disk. By default they do not:
	// after a crash of PostgreSQL, the events of the last moments are published again.
	DurableMarks bool
	// GiveUp is when a refused event fails: after at least ten tries, if the first refusal is more
	// than GiveUp ago. A return begins that time again. A destination that is not reachable refuses
	// nothing; about no answer, see NoAnswerPauses. It may be a year: a failed event waits for an
	// operator, and so do the later ones of its aggregate. The default is 24 h.
	GiveUp time.Duration
	// RetryBase is the first pause of a refused event. It doubles each time. The default is 1 s.
	RetryBase time.Duration
	// RetryCap is the longest pause of a refused event. The default is 5 min.
	RetryCap time.Duration
	// LongestTopicPause is the longest pause of a topic. The first one is a twentieth of it, and at
	// most half a second. The default is 10 s.
	LongestTopicPause time.Duration
	// Retention is how long published and discarded events are kept. Meanwhile they can be published
	// again, to a destination that has lost them. The default is seven days.
	Retention time.Duration
	// ShutdownTimeout is how long Run goes on after its context has ended, to finish the batches in
	// flight. What is not finished by then is published again. Run returns at most two seconds
	// later, whatever the database does. The default is 10 s.
	ShutdownTimeout time.Duration
	// OnPublished is called with events that the destination has confirmed, after the commit that says
	// so and outside each transaction. The events have no Payload. Several goroutines may call it at
	// the same time. Return soon, and at once when ctx ends: the events keep their places in the
	// window until then. Run does not return before the call does. A panic ends the process. An event
	// may come twice. If the process dies after the commit, the call is missing: do nothing here that
	// must happen.
	OnPublished func(ctx context.Context, events []Event)
	// OnFailed is called as OnPublished is, with an event that has become failed, and why.
	OnFailed func(ctx context.Context, event Event, reason string)
	// NoListen turns off PostgreSQL's LISTEN and NOTIFY. Then the poll finds the events that other
	// processes commit. If it is false, the relay uses one connection in addition to those
	// of the pool. It detects if LISTEN does not work, for example behind PgBouncer, and then only
	// polls.
	NoListen bool
	// Logger is where the relay logs. The default is [slog.Default]. Level info has a line for each
	// batch and for each published event. At high rates, most of these lines are at level debug.
	Logger *slog.Logger
	// TracerProvider makes the spans of published messages. The default is OpenTelemetry's global one.
	TracerProvider trace.TracerProvider
}

// settings are those of the relay below.
func (c RelayConfig) settings() relay.Config {
	s := relay.Config{
		AppID: c.AppID, Workers: c.Workers, Window: c.Window, PollInterval: c.PollInterval, Lease: c.Lease,
		SettleAfter: c.SettleAfter, SlowAfter: c.SlowAfter, ConfirmTimeout: c.ConfirmTimeout,
		NoAnswerPauses: c.NoAnswerPauses, DurableMarks: c.DurableMarks, GiveUp: c.GiveUp,
		RetryBase: c.RetryBase, RetryCap: c.RetryCap, LongestTopicPause: c.LongestTopicPause,
		Retention: c.Retention, ShutdownTimeout: c.ShutdownTimeout, Logger: c.Logger, TracerProvider: c.TracerProvider,
	}
	if c.OnPublished != nil {
		s.OnPublished = func(ctx context.Context, stored []store.Event) {
			events := make([]Event, len(stored))
			for i, e := range stored {
				events[i] = eventOf(e)
			}
			c.OnPublished(ctx, events)
		}
	}
	if c.OnFailed != nil {
		s.OnFailed = func(ctx context.Context, e store.Event, reason string) { c.OnFailed(ctx, eventOf(e), reason) }
	}
	return s
}

// eventOf returns the event without its payload, which may be forgotten already.
func eventOf(e store.Event) Event {
	return Event{
		Topic: e.Topic, Destination: e.Destination, Aggregate: e.Aggregate, AggregateID: e.AggregateID, Version: e.Version, Supersedes: e.Supersedes,
		ContentType: e.ContentType, Headers: e.Headers, Traceparent: e.Traceparent, ID: e.ID,
	}
}
