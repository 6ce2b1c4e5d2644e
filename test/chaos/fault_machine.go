package main

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/test/servers"
)

// silentTakeoverTime is how long the services may take to work again after a promotion, if the old
// primary's machine answers nothing: a transaction notices it after 15 s at most, and the next
// connection tries that machine for 5 s. Then a batch is claimed, or a message is delivered.
const silentTakeoverTime = 25 * time.Second

// vanishDatabase makes the primary's machine silent until the end of the scenario, and promotes the
// standby.
func (sys *system) vanishDatabase(ctx context.Context) error {
	sys.allowLostMarks()
	sys.vanish(append(sys.standby.hosts[0], sys.standby.replication)...)
	if err := errors.Join(sleep(ctx, noticeTime), sys.promote(ctx)); err != nil {
		return err
	}
	return errors.Join(sys.requireWork(ctx, silentTakeoverTime), sys.sleepRandom(ctx, sys.scaled(3*time.Second)))
}

// vanish makes the machine behind these proxies silent: nobody gets a FIN or an RST from it, and it
// answers nothing on old and on new connections. The proxy's kernel still accepts connections and
// acknowledges bytes. So the timeouts of TCP do not help here, and only those of the program do. On
// a real network both would help.
func (sys *system) vanish(proxies ...*servers.Proxy) {
	sys.allowed.Refusals = true // there is no answer in time
	for _, p := range proxies {
		sys.injected += p.Open()
		p.Stall()
	}
}
