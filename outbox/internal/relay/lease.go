package relay

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// lease is the time in which the events of a claim may be sent. When it is over, another relay may
// have them, and may send a later event of the same aggregate. It is counted by this process, from
// before the claim was asked for, so it ends here before it ends in the database.
type lease struct {
	token uuid.UUID
	all   *leases
	until atomic.Int64 // nanoseconds after epoch
	over  context.Context
	end   context.CancelFunc // lets nothing more be sent
}

// epoch makes durations of the monotonic clock.
var epoch = time.Now()

var errLeaseEnded = errors.New("the lease has ended, or nothing can be marked")

func (l *lease) ended() bool {
	return l.over.Err() != nil || int64(time.Since(epoch)) >= l.until.Load()
}

// leased is a context that ends with a lease. Err looks at the clock: a process that was suspended
// may go on before any timer fires.
type leased struct {
	context.Context
	*lease
}

func (l leased) Err() error {
	if err := l.Context.Err(); err != nil || !l.ended() {
		return err
	}
	return errLeaseEnded
}

// leases are those of a worker. They are renewed in a goroutine of their own, so that no slow
// statement stops that. A renewal may wait for a settlement of the same worker, and for no other.
type leases struct {
	config *Config
	mu     sync.Mutex
	held   map[uuid.UUID]*lease
}

// renewEvery is how often the leases of what is in flight are renewed.
const renewEvery = time.Second

// begin returns the lease of a claim that was asked for at a time.
func (l *leases) begin(token uuid.UUID, asked time.Time) *lease {
	one := &lease{token: token, all: l}
	one.over, one.end = context.WithCancel(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extend(one, asked)
	l.held[token] = one
	return one
}

// extend makes a lease end that much after a renewal was asked for. The caller holds mu.
func (l *leases) extend(one *lease, asked time.Time) {
	one.until.Store(int64(asked.Sub(epoch) + l.config.Lease))
}

// release ends a lease, and renews it no more.
func (l *lease) release() {
	l.end()
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	delete(l.all.held, l.token)
}

// endAll lets nothing more be sent of what is in flight. The claims stay, and are renewed.
func (l *leases) endAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.held {
		one.end()
	}
}

// renew renews leases until ctx ends.
func (l *leases) renew(ctx context.Context, d *database) {
	for wait := renewEvery; Wait(ctx, wait); {
		wait = renewEvery
		tokens, asked := l.tokens(), time.Now()
		if len(tokens) == 0 {
			continue
		}
		var held []uuid.UUID
		if !d.execute(ctx, ctx, "cannot renew leases", func(ctx context.Context) (err error) {
			asked = time.Now()
			held, err = d.store.Renew(ctx, tokens, l.config.Lease)
			return err
		}) {
			wait = max(time.Until(d.notBefore()), shortestWait)
			continue
		}
		l.mu.Lock()
		for _, token := range tokens {
			switch one := l.held[token]; {
			case one == nil: // released meanwhile
			case slices.Contains(held, token):
				l.extend(one, asked)
			default:
				one.end()
				delete(l.held, token)
			}
		}
		l.mu.Unlock()
	}
}

func (l *leases) tokens() []uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.held))
}
