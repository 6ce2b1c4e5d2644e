package mailer

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// pool has the connections of all sessions. At most half of them are in use for one domain, and at
// most half for all slow domains together. So slow domains hold up no other.
type pool struct {
	*Destination
	mu            sync.Mutex
	open, opening int // connections; the opening ones are not open yet
	fewer         int // are allowed until fewerUntil, because the server has taken no more
	fewerUntil    time.Time
	refusals      int                  // in a row, each of which ended its connection
	refused       map[string]struct{}  // their domains
	nextRefused   time.Time            // then one of these is tried again
	idle          []*connection        // the last one was used last
	waiting       []waiter             // in their order
	busy          map[string]int       // connections in use for a domain
	full          map[string]time.Time // since when a domain has its share
	inUse         map[*connection]struct{}
	slow          map[string]struct{} // domains whose last e-mail took longer than limits.busy
	sessions      int
	lost, reached context.Context //nolint:containedctx // end with the sessions; reached when a connection is open too
	lose          context.CancelCauseFunc
	reach         context.CancelFunc
}

func newPool(d *Destination) *pool {
	return &pool{
		Destination: d, inUse: map[*connection]struct{}{}, busy: map[string]int{},
		full: map[string]time.Time{}, slow: map[string]struct{}{}, refused: map[string]struct{}{},
	}
}

// waiter waits for a connection.
type waiter struct {
	domain string
	got    chan *connection
}

// join begins a session. When the last one leaves, the connections close.
func (p *pool) join() (lost, reached context.Context, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions++; p.sessions == 1 || p.lost.Err() != nil {
		p.lost, p.lose = context.WithCancelCause(context.Background())
		p.reached, p.reach = context.WithCancel(p.lost)
		p.opening++
		go p.openOne(p.lost)
	}
	return p.lost, p.reached, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.sessions--; p.sessions > 0 {
			return
		}
		p.lose(nil)
		var quitting sync.WaitGroup
		for c := p.popIdle(); c != nil; c = p.popIdle() {
			p.open--
			quitting.Go(c.quit)
		}
		quitting.Wait()
	}
}

// take waits for a connection. It gives up when a context ends, and when the domain has had its
// share of the connections for a while.
func (p *pool) take(ctx, lost context.Context, domain string) (*connection, error) {
	w := waiter{domain, make(chan *connection, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, w)
	for tick, waited := time.NewTicker(p.limits.busy), false; ; {
		ended := cmp.Or(context.Cause(ctx), context.Cause(lost))
		if ended == nil {
			p.serve()
		}
		since, full := p.full[domain]
		full = full && p.busy[domain] >= p.share() && time.Since(since) >= p.limits.busy || p.slowIsFull(domain, 0)
		full = full && waited
		if len(w.got) == 0 && (ended != nil || full) {
			p.waiting = slices.DeleteFunc(p.waiting, func(other waiter) bool { return other == w })
			return nil, cmp.Or(ended, publish.ErrBusy)
		}
		p.mu.Unlock()
		select {
		case c := <-w.got:
			p.mu.Lock()
			if c == nil {
				return nil, publish.ErrBusy
			}
			return c, nil
		case <-ctx.Done():
		case <-lost.Done():
		case <-tick.C:
			waited = true
		}
		p.mu.Lock()
	}
}

// put gives back a connection that take handed out, with the outcome of its e-mail.
func (p *pool) put(c *connection, of publish.Outcome) {
	broke, took := c.closed, time.Since(c.since)
	c.kept = true
	if c.emails >= p.limits.emails || time.Since(c.opened) >= p.limits.age {
		c.quit() // before its place is free, so that the server never sees too many
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	domain := c.domain
	delete(p.inUse, c)
	switch {
	case of == publish.Confirmed:
		p.refusals = 0
		clear(p.refused)
	case of == publish.Refused && broke:
		if len(p.refused) >= maxSlow {
			clear(p.refused)
		}
		p.refused[domain] = struct{}{}
		if p.refusals++; p.isRefused(domain) {
			p.giveUp(domain)
		}
	}
	if delete(p.slow, domain); took > p.limits.busy && len(p.slow) < maxSlow {
		p.slow[domain] = struct{}{}
	}
	if p.busy[domain]--; p.busy[domain] == 0 {
		delete(p.busy, domain)
	}
	p.keep(c)
	if p.busy[domain] < p.share() {
		delete(p.full, domain)
	}
}

// keep makes c idle, unless it is closed.
func (p *pool) keep(c *connection) {
	if c.closed {
		p.open--
	} else {
		c.expiry = time.AfterFunc(min(p.limits.idle, p.limits.age-time.Since(c.opened)), c.quit)
		p.idle = append(p.idle, c)
	}
	p.serve()
	for _, c := range p.idle {
		c.kept = true
	}
}

// popIdle returns the connection that was used last, or nil.
func (p *pool) popIdle() *connection {
	for last, c := range slices.Backward(p.idle) {
		if p.idle = p.idle[:last]; c.expiry.Stop() {
			return c
		}
		p.open-- // it has expired
	}
	return nil
}

// allowed is how many connections there may be, and share how many of them for one domain.
func (p *pool) allowed() int {
	if time.Now().Before(p.fewerUntil) {
		return p.fewer
	}
	return p.Connections
}

func (p *pool) share() int { return max(1, p.allowed()/2) }

// maxSlow bounds slow and refused.
const maxSlow = 10_000

// slowIsFull reports whether a domain is slow, and the slow ones use as many connections as they
// may.
func (p *pool) slowIsFull(domain string, wanted int) bool {
	used, isSlow := wanted, map[string]bool{}
	for c := range p.inUse {
		_, known := p.slow[c.domain]
		isSlow[c.domain] = isSlow[c.domain] || known || time.Since(c.since) > p.limits.busy
	}
	for c := range p.inUse {
		if isSlow[c.domain] {
			used++
		}
	}
	_, known := p.slow[domain]
	return (known || isSlow[domain]) && used >= p.share()
}

// serve gives idle connections to those who wait, and opens more.
func (p *pool) serve() {
	allowed, share, unserved, wanted := p.allowed(), p.share(), 0, map[string]int{}
	mayTry := !time.Now().Before(p.nextRefused)
	for i := 0; i < len(p.waiting) && (len(p.idle) > 0 || p.open+p.opening < allowed); {
		w := p.waiting[i]
		refused := p.isRefused(w.domain)
		if p.busy[w.domain]+wanted[w.domain] >= share || p.slowIsFull(w.domain, unserved) || refused && !mayTry {
			i++
			continue
		}
		mayTry = mayTry && !refused
		if c := p.popIdle(); c != nil {
			if refused {
				p.nextRefused = time.Now().Add(p.limits.retry)
			}
			if p.busy[w.domain]++; p.busy[w.domain] >= share {
				p.full[w.domain] = cmp.Or(p.full[w.domain], time.Now())
			}
			p.waiting = slices.Delete(p.waiting, i, i+1)
			c.domain, c.since = w.domain, time.Now()
			p.inUse[c] = struct{}{}
			w.got <- c
		} else {
			i++
			wanted[w.domain]++
			if unserved++; unserved > p.opening && p.open+p.opening < allowed {
				p.opening++
				go p.openOne(p.lost)
			}
		}
	}
}

// isRefused reports whether e-mails to this domain are tried one at a time, after pauses of
// limits.retry: the server has ended as many connections in a row as there may be, and one of them
// for this domain. This holds until the server takes any e-mail. Otherwise a server that ends each
// connection, for example with the reply 421, would get one for each e-mail that waits.
func (p *pool) isRefused(domain string) bool {
	_, refused := p.refused[domain]
	return refused && p.refusals >= p.Connections
}

// giveUp lets the other e-mails of a domain wait in the outbox, and at first those of all refused
// domains. Here they would take the places of others.
func (p *pool) giveUp(domain string) {
	p.waiting = slices.DeleteFunc(p.waiting, func(w waiter) bool {
		gone := w.domain == domain || p.refusals == p.Connections && p.isRefused(w.domain)
		if gone {
			close(w.got)
		}
		return gone
	})
}

// openOne opens a connection. If that fails, the server may allow no more than there are. If there
// are none, all sessions end.
func (p *pool) openOne(lost context.Context) {
	c, err := p.dial(lost)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.opening--; {
	case err == nil:
		p.open++
		p.reach()
		p.keep(c)
	case lost.Err() != nil: // nobody needs it
	case p.open+p.opening > 0:
		p.fewer, p.fewerUntil = p.open+p.opening, time.Now().Add(p.limits.fewer)
	default:
		p.lose(err)
	}
}
