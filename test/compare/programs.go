package main

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/test/env/services"
)

// This project's settings are those of test/chaos: smaller batches and shorter times than usual, as
// the designs have.
var (
	orderSettings = []string{
		"RELAY_WORKERS=2", "RELAY_WINDOW=20", "RELAY_CONFIRM_TIMEOUT=3s", "RELAY_LEASE=9s", "RELAY_POLL_INTERVAL=200ms",
		"RELAY_RETRY_BASE=100ms", "RELAY_RETRY_CAP=1s",
	}
	notificationSettings = []string{
		"CONSUMER_BATCH_SIZE=8", "CONSUMER_PREFETCH=16", "RETRY_DELAYS=300ms,1s,3s", "MAIL_FROM=shop@example.com",
		fmt.Sprint("MAIL_CONNECTIONS=", mailConnections), "RELAY_WINDOW=8", "RELAY_LEASE=9s", "RELAY_POLL_INTERVAL=200ms",
		"RELAY_RETRY_BASE=100ms", "RELAY_RETRY_CAP=1s",
	}
)

func (sys *system) definePrograms(orders, effects string) {
	logs := filepath.Join(sys.Folder, fmt.Sprint("row-", sys.rows))
	for i := range sys.orderSides {
		p := &program{path: sys.path(designsProgram), argument: sys.design.name, ready: services.TakingOrders, log: fmt.Sprint(logs, "-orders-", i)}
		amqp := "amqp://guest:guest@" + sys.ordersToBroker[i].Addr() + "/"
		p.settings = []string{"DATABASE_URL=" + orders, "AMQP_URL=" + amqp, fmt.Sprint("NAME=replica-", i)}
		switch {
		case sys.design.side&consumerSide != 0:
			p.path, p.argument = sys.path(services.Orders), "serve"
			p.settings = append(p.settings, orderSettings...)
		case len(sys.design.modules) > 0:
			p.path = sys.path(peersProgram)
		}
		sys.orderSides[i] = p
	}
	c := &program{path: sys.path(designsProgram), argument: sys.design.name, ready: services.TakingMessages, log: logs + "-consumer"}
	c.settings = []string{
		"DATABASE_URL=" + effects, "AMQP_URL=amqp://guest:guest@" + sys.consumerToBroker.Addr() + "/",
		"SMTP_ADDR=" + sys.consumerToMail.Addr(), "SMTP_URL=smtp://" + sys.consumerToMail.Addr(),
	}
	switch sys.design.side {
	case orderSide:
		c.argument = "good-consumer"
	case bothSides:
		c.path, c.argument = sys.path(services.Notifications), "serve"
		c.settings = append(c.settings, notificationSettings...)
	case consumerSide: // the design itself
	}
	sys.consumer = c
}

func (sys *system) programs() []*program {
	return []*program{sys.orderSides[0], sys.orderSides[1], sys.consumer}
}

// startPrograms starts all processes. The load begins when the consumer has declared its queue.
func (sys *system) startPrograms(ctx context.Context) error {
	if err := sys.orderSides[0].start(ctx); err != nil { // it is the leader, if there is one
		return err
	}
	var starting errgroup.Group
	for _, p := range []*program{sys.orderSides[1], sys.consumer} {
		starting.Go(func() error { return p.start(ctx) })
	}
	return starting.Wait()
}

// targets returns the URLs of the running APIs.
func (sys *system) targets() (urls []string) {
	for _, p := range sys.orderSides {
		if url := p.url(); url != "" {
			urls = append(urls, url)
		}
	}
	return urls
}
