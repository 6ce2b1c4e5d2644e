package outbox

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/dbtest"
)

// TestP4ARelayOutlivesFrozenConnections freezes the connections to the database, while new ones
// work. This happens after a failover, for example.
func TestP4ARelayOutlivesFrozenConnections(t *testing.T) {
	t.Parallel()
	for name, poll := range map[string]time.Duration{"idle": 2 * time.Second, "in use": 10 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFrozenFixture(t, poll)
			b.appendAndAwait(50)
			b.proxy.freeze()
			b.appendAndAwait(100)
			b.wantNoRepeat()
		})
	}
}

// TestP4AMarkGoesOutOnAnotherConnection freezes the connections between confirms and mark.
func TestP4AMarkGoesOutOnAnotherConnection(t *testing.T) {
	t.Parallel()
	b := newFrozenFixture(t, 10*time.Millisecond)
	b.appendAndAwait(50)
	b.to.call(sync.OnceFunc(b.proxy.freeze))
	b.appendAndAwait(100)
	b.appendAndAwait(150)
	b.wantNoRepeat()
}

// frozenFixture is a relay whose connections to the database can freeze.
type frozenFixture struct {
	*testing.T
	direct *pgxpool.Pool
	proxy  *proxy
	to     *sink
	relay  *Relay
}

func newFrozenFixture(t *testing.T, poll time.Duration) *frozenFixture {
	t.Helper()
	url := dbtest.URL(t)
	b := &frozenFixture{T: t, direct: withTables(t, url), proxy: newProxy(t, url), to: newSink()}
	// The pool checks an idle connection before it uses it, and does not wait long for the answer.
	pool := dbtest.Pool(t, b.proxy.url+"&pool_max_conns=4&pool_ping_timeout=1s")
	t.Cleanup(b.proxy.stop) // before the pool is closed, which would wait 15 s for frozen connections
	b.relay, _ = run(t, pool, b.to, RelayConfig{PollInterval: poll, Window: 500})
	return b
}

// appendAndAwait commits 50 events, and waits until so many are marked published.
func (b *frozenFixture) appendAndAwait(published int) {
	b.Helper()
	appendEvents(b.T, b.direct, 50)
	b.relay.Wake()
	awaitPublished(b.T, b.direct, published)
}

func (b *frozenFixture) wantNoRepeat() {
	b.Helper()
	if _, repeats := b.to.counts(); repeats > 0 {
		b.Errorf("%d messages were published again", repeats)
	}
}
