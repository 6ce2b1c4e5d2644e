package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

// RelayConfig has the settings of a [Relay]. The zero value of each field is its default.
type RelayConfig struct {
	// AppID is the name of the service that publishes. Each message has it.
	AppID string
	// Workers is how many workers publish in parallel. Each one uses a connection of the pool while
	// it claims or settles. The default is 2.
	Workers int
	// Window is how many events of a worker may wait for their answers. As soon as half of it is
	// free, the worker claims more. The default is 2000.
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
	// SlowAfter is how long the relay waits for an answer before the event gives up its place in the
	// window. If nothing of the event's topic was taken meanwhile, the topic pauses. The default is 1
	// s. A destination that answers one by one ([publish.OneByOne], as [publish.Func]) has no such
	// limit. Then it only bounds how long the trial event of a topic keeps others from being tried.
	SlowAfter time.Duration
	// ConfirmTimeout bounds the wait for the answer to an event, if the destination does not answer
	// one by one. The default is 10 s.
	ConfirmTimeout time.Duration
	// NoAnswerPauses are the pauses of an event that has had no answer; the last one repeats. Give
	// long ones if the destination cannot recognise a message that it gets twice, as a mail server.
	// Then no answer counts as a refusal. By default the event waits as one that was refused, and never
	// fails for that.
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
	// OnPublished is called with events that the destination has confirmed, after the commit that
	// says so and outside each transaction. The events have no Payload. Several workers may call it at
	// the same time. Return soon, and at once when ctx ends: the worker waits for the call, and renews
	// no lease meanwhile. If a call takes longer than Lease, other workers send its events again. Run
	// does not return before the call does. A panic ends the process. An event may come twice. If the
	// process dies after the commit, the call is missing: do nothing here that must happen.
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

const (
	// maxWorkers is more than anybody needs.
	maxWorkers = 1000
	// maxWindow keeps a claim, and the statement that marks it, well within their deadlines.
	maxWindow = 5000
	// maxLease is also how long the events of a relay that died may wait.
	maxLease = time.Hour
)

// withDefaults returns the settings with a value in each field.
func (c RelayConfig) withDefaults() RelayConfig {
	c.Workers = cmp.Or(c.Workers, 2)
	c.Window = cmp.Or(c.Window, 2000)
	c.PollInterval = cmp.Or(c.PollInterval, time.Second)
	c.Lease = cmp.Or(c.Lease, 20*time.Second)
	c.SettleAfter = cmp.Or(c.SettleAfter, 100*time.Millisecond)
	c.SlowAfter = cmp.Or(c.SlowAfter, time.Second)
	c.ConfirmTimeout = cmp.Or(c.ConfirmTimeout, 10*time.Second)
	c.GiveUp = cmp.Or(c.GiveUp, 24*time.Hour)
	c.RetryBase = cmp.Or(c.RetryBase, time.Second)
	c.RetryCap = cmp.Or(c.RetryCap, 5*time.Minute)
	c.LongestTopicPause = cmp.Or(c.LongestTopicPause, 10*time.Second)
	c.Retention = cmp.Or(c.Retention, 7*24*time.Hour)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, 10*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.TracerProvider == nil {
		c.TracerProvider = otel.GetTracerProvider()
	}
	return c
}

// check returns everything that is wrong.
func (c RelayConfig) check() error {
	errs := []error{
		between("Workers", c.Workers, 1, maxWorkers),
		between("Window", c.Window, 1, maxWindow),
		between("PollInterval", c.PollInterval, 10*time.Millisecond, time.Hour),
		between("Lease", c.Lease, max(3*renewEvery, statementTimeout), maxLease),
		between("SettleAfter", c.SettleAfter, time.Microsecond, time.Minute),
		between("SlowAfter", c.SlowAfter, 10*time.Millisecond, time.Hour),
		between("ConfirmTimeout", c.ConfirmTimeout, 100*time.Millisecond, maxLease),
		between("GiveUp", c.GiveUp, time.Second, 365*24*time.Hour),
		between("RetryBase", c.RetryBase, time.Millisecond, 24*time.Hour),
		between("RetryCap", c.RetryCap, time.Millisecond, 365*24*time.Hour),
		between("LongestTopicPause", c.LongestTopicPause, time.Second, 24*time.Hour),
		between("Retention", c.Retention, time.Second, 100*365*24*time.Hour),
		between("ShutdownTimeout", c.ShutdownTimeout, time.Millisecond, time.Hour),
	}
	if err := checkText("AppID", c.AppID, 0); err != nil { // otherwise each event would be failed
		errs = append(errs, fmt.Errorf("outbox: RelayConfig.%w", err))
	}
	for _, pause := range c.NoAnswerPauses {
		errs = append(errs, between("NoAnswerPauses", pause, time.Millisecond, 365*24*time.Hour))
	}
	if c.RetryCap < c.RetryBase {
		errs = append(errs, fmt.Errorf("outbox: RelayConfig.RetryCap must be at least RetryBase (%s), and is %s", c.RetryBase, c.RetryCap))
	}
	return errors.Join(errs...)
}

func between[T cmp.Ordered](field string, value, least, most T) error {
	if value < least || value > most {
		return fmt.Errorf("outbox: RelayConfig.%s must be between %v and %v, and is %v", field, least, most, value)
	}
	return nil
}
