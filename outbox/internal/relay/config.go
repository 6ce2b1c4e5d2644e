package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Config has the settings of a relay. They are those of outbox.RelayConfig, which explains them.
type Config struct {
	AppID                  string
	Workers, Window        int
	PollInterval, Lease    time.Duration
	SettleAfter, SlowAfter time.Duration
	ConfirmTimeout         time.Duration
	NoAnswerPauses         []time.Duration
	DurableMarks           bool
	GiveUp                 time.Duration
	RetryBase, RetryCap    time.Duration
	LongestTopicPause      time.Duration
	Retention              time.Duration
	ShutdownTimeout        time.Duration
	OnPublished            func(ctx context.Context, events []store.Event)
	OnFailed               func(ctx context.Context, event store.Event, reason string)
	Logger                 *slog.Logger
	TracerProvider         trace.TracerProvider
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
func (c Config) withDefaults() Config {
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

// Checked returns the settings with a value in each field, or everything that is wrong.
func (c Config) Checked() (Config, error) {
	c = c.withDefaults()
	return c, c.check()
}

// check returns everything that is wrong.
func (c Config) check() error {
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
