package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/test/compare/judge"
	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/env/load"
	"example.com/transactional-outbox/test/env/mailserver"
	"example.com/transactional-outbox/test/env/servers"
)

// outage is how long a server is away. It is longer than all delays of the designs' retries.
const outage = 8 * time.Second

func (sys *system) noFault(ctx context.Context) error {
	return sleep(ctx, 8*time.Second)
}

// kills is how often processes are killed.
const kills = 8

func (sys *system) killOrderSide(ctx context.Context) error {
	return sys.kill(ctx, sys.orderSides[:])
}

func (sys *system) killConsumer(ctx context.Context) error {
	return sys.kill(ctx, []*program{sys.consumer})
}

// kill kills random processes at random times, and starts them again.
func (sys *system) kill(ctx context.Context, of []*program) error {
	for range kills {
		if err := sys.sleepRandom(ctx, 800*time.Millisecond); err != nil {
			return err
		}
		victim := of[sys.random.IntN(len(of))]
		if err := victim.end(ctx, syscall.SIGKILL, time.Minute); err != nil {
			return err
		}
		if err := victim.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sleepRandom waits for a random time between half of d and d.
func (sys *system) sleepRandom(ctx context.Context, d time.Duration) error {
	return sleep(ctx, d/2+time.Duration(sys.random.Int64N(int64(d/2))))
}

// restartBroker lets the broker hang before it dies, as on a machine without free memory. What is
// sent to it in this time is in buffers of the network, and is lost.
func (sys *system) restartBroker(ctx context.Context) error {
	for _, p := range sys.brokerProxies() {
		p.Stall()
	}
	err := sleep(ctx, 500*time.Millisecond)
	err = errors.Join(err, sys.Broker.Kill())
	for _, p := range sys.brokerProxies() {
		p.Reset() // the stalled bytes never arrive
		p.Resume()
	}
	return errors.Join(err, sys.Broker.Start(context.WithoutCancel(ctx)))
}

func (sys *system) brokerProxies() []*servers.Proxy {
	return append(sys.ordersToBroker[:], sys.consumerToBroker)
}

func (sys *system) cutBroker(ctx context.Context) error {
	return sys.cut(ctx, sys.brokerProxies())
}

func (sys *system) cutMail(ctx context.Context) error {
	return sys.cut(ctx, []*servers.Proxy{sys.consumerToMail})
}

// cut closes connections, and refuses new ones for the time of an outage.
func (sys *system) cut(ctx context.Context, proxies []*servers.Proxy) error {
	for _, p := range proxies {
		p.Refuse(true)
		p.Cut()
	}
	err := sleep(ctx, outage)
	for _, p := range proxies {
		p.Refuse(false)
	}
	return err
}

func (sys *system) raiseMemoryAlarm(ctx context.Context) error {
	if err := sys.Broker.Alarm(ctx, true); err != nil {
		return err
	}
	blocks, err := sys.broker.IsBlocking(ctx)
	if err == nil && !blocks {
		err = errNoEffect
	}
	err = errors.Join(err, sleep(ctx, outage))
	return errors.Join(err, sys.Broker.Alarm(context.WithoutCancel(ctx), false))
}

// unbindAll stops the consumer and removes its bindings, and those of the tap.
func (sys *system) unbindAll(ctx context.Context) error {
	if err := sys.consumer.end(ctx, syscall.SIGTERM, 8*time.Second); err != nil {
		return err
	}
	err := errors.Join(
		sys.broker.Unbind(ctx, broker.Tap, "#"),
		sys.broker.Unbind(ctx, broker.Queue, string(load.Place), string(load.Confirm), string(load.Cancel)))
	if err != nil {
		return err
	}
	if err := sleep(ctx, outage/2); err != nil {
		return err
	}
	return errors.Join(sys.consumer.start(ctx), sys.broker.BindTap(ctx))
}

// restartDatabase kills PostgreSQL three times, so that transactions are hit at different points.
func (sys *system) restartDatabase(ctx context.Context) error {
	for range 3 {
		if err := sys.sleepRandom(ctx, time.Second); err != nil {
			return err
		}
		if err := sys.Database.Kill(); err != nil {
			return err
		}
		if err := sys.Database.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// stallReplica stops the replica that was started first, while it waits for the broker. The other
// one must finish all work without it.
func (sys *system) stallReplica(ctx context.Context) error {
	p := sys.orderSides[0]
	sys.ordersToBroker[0].HoldReplies()
	err := errors.Join(sleep(ctx, 500*time.Millisecond), p.hold(true, syscall.SIGSTOP))
	sys.ordersToBroker[0].Resume()
	if err := errors.Join(err, sleep(ctx, 4*time.Second)); err != nil {
		return err
	}
	sys.stopLoad()
	if _, err := sys.awaitFinished(ctx); err != nil {
		return err
	}
	if err := sys.noteStalled(ctx); err != nil {
		return err
	}
	return p.hold(false, syscall.SIGCONT)
}

// noteStalled records the events that wait for the stalled replica.
func (sys *system) noteStalled(ctx context.Context) error {
	e, err := sys.readDatabases(ctx)
	if err != nil {
		return err
	}
	done := map[judge.Event]bool{}
	for _, event := range e.Effects {
		done[event] = true
	}
	for _, event := range e.Waiting {
		if !done[event] {
			sys.stalled = append(sys.stalled, event)
		}
	}
	return nil
}

func (sys *system) publishPoison(ctx context.Context) error {
	for range 20 {
		m := broker.Message{ID: uuid.NewString(), Key: string(load.Place), Body: []byte("this is not an order")}
		if err := sys.broker.Publish(ctx, m); err != nil {
			return err
		}
	}
	return sleep(ctx, 3*time.Second)
}

// refuseForOther makes e-mails fail for now, while another service gets the same messages.
func (sys *system) refuseForOther(ctx context.Context) error {
	const refused = 30
	sys.mail.SetFault(mailserver.Fault{Code: 450, Enhanced: [3]int{4, 2, 1}, Times: refused})
	return sys.endMailFault(sleep(ctx, 5*time.Second))
}

// slowAnswer is longer than the time for which the designs wait for an answer.
const slowAnswer = 6 * time.Second

func (sys *system) slowMail(ctx context.Context) error {
	sys.mail.SetFault(mailserver.Fault{DataDelay: slowAnswer})
	return sys.endMailFault(sleep(ctx, 2*slowAnswer))
}

var errNoEffect = errors.New("the fault had no effect")

func (sys *system) endMailFault(err error) error {
	if err == nil && sys.mail.Injected() == 0 {
		err = errNoEffect
	}
	sys.mail.SetFault(mailserver.Fault{})
	return err
}
