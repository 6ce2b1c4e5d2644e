package settings

import (
	"slices"
	"time"

	"example.com/transactional-outbox/outbox"
)

// Relay has the settings of a service's relay. RELAY_WINDOW is not among them, because its default
// depends on the destination.
type Relay struct {
	// RelayWorkers is how many workers claim events, send them and mark them, in parallel.
	RelayWorkers int `env:"RELAY_WORKERS" envDefault:"2"`
	// OutboxNotify wakes the relays of other processes by PostgreSQL's LISTEN and NOTIFY. If it
	// is off, their poll finds the events. LISTEN does not work through PgBouncer.
	OutboxNotify bool `env:"OUTBOX_NOTIFY" envDefault:"true"`
	// RelayPollInterval is how often the relay looks for events, even if nothing wakes it.
	RelayPollInterval time.Duration `env:"RELAY_POLL_INTERVAL" envDefault:"1s"`
	// RelayLease is how long a claim is valid without being renewed. After a crash, its events are
	// sent that much later. It is renewed each second. At least five seconds, at most an hour.
	RelayLease time.Duration `env:"RELAY_LEASE" envDefault:"20s"`
	// RelayGiveUp is when a refused event is failed: that long after it was refused first, and
	// after ten times at least.
	RelayGiveUp time.Duration `env:"RELAY_GIVE_UP" envDefault:"24h"`
	// RelayRetryBase is the first pause of a refused event. It doubles each time.
	RelayRetryBase time.Duration `env:"RELAY_RETRY_BASE" envDefault:"1s"`
	// RelayRetryCap is the longest pause.
	RelayRetryCap time.Duration `env:"RELAY_RETRY_CAP" envDefault:"5m"`
	// OutboxRetention is how long sent and discarded events are kept. Within this time they can be
	// sent again, to a destination that has lost them. At least an hour.
	OutboxRetention time.Duration `env:"OUTBOX_RETENTION" envDefault:"168h"`
}

const (
	maxWorkers = 1000            // more than anybody needs: each worker uses a connection to the database
	minLease   = 5 * time.Second // as long as a statement may take
	maxLease   = time.Hour       // is also how long the events of a relay that died may wait
	maxWindow  = 5000            // a claim, and the statement that marks it, must keep their deadlines
)

// CheckRelay returns everything that is wrong with the settings and with RELAY_WINDOW.
func (r Relay) CheckRelay(window int) []error {
	return slices.Concat(
		AtLeast("RELAY_WORKERS", r.RelayWorkers, 1),
		AtMost("RELAY_WORKERS", r.RelayWorkers, maxWorkers),
		AtLeast("RELAY_WINDOW", window, 1),
		AtMost("RELAY_WINDOW", window, maxWindow),
		AtLeast("RELAY_POLL_INTERVAL", r.RelayPollInterval, 10*time.Millisecond),
		AtLeast("RELAY_LEASE", r.RelayLease, minLease),
		AtMost("RELAY_LEASE", r.RelayLease, maxLease),
		AtLeast("RELAY_GIVE_UP", r.RelayGiveUp, time.Second),
		AtLeast("RELAY_RETRY_BASE", r.RelayRetryBase, time.Millisecond),
		AtLeast("RELAY_RETRY_CAP", r.RelayRetryCap, r.RelayRetryBase),
		AtLeast("OUTBOX_RETENTION", r.OutboxRetention, time.Hour),
	)
}

// RelayConfig returns these settings for a relay. The caller adds those of its destination.
func (r Relay) RelayConfig(service string, window int) outbox.RelayConfig {
	return outbox.RelayConfig{
		AppID: service, Workers: r.RelayWorkers, Window: window, PollInterval: r.RelayPollInterval, Lease: r.RelayLease,
		GiveUp: r.RelayGiveUp, RetryBase: r.RelayRetryBase, RetryCap: r.RelayRetryCap,
		Retention: r.OutboxRetention, NoListen: !r.OutboxNotify,
	}
}
