package servertest

import (
	"context"
	"errors"
	"regexp"

	"example.com/transactional-outbox/internal/servertest/port"
)

const localhost = "127.0.0.1"

// maxStarts is how often a server is started that loses its ports.
const maxStarts = 5

// errPortTaken is about a server that does not log it.
var errPortTaken = errors.New("its port is taken")

// cannotListen is what others log: PostgreSQL, epmd and programs in Go, Erlang, and RabbitMQ
// about the port for other nodes.
var cannotListen = regexp.MustCompile(`(?i)address already in use|eaddrinuse|dist_port_already_used`)

// startable is a server that may be started again on other ports.
type startable interface {
	tryStart(ctx context.Context, logged func() string) error
	end() error
}

// ports are those of one server, reserved until it is closed. They are fixed once it has
// started: from then on, clients know them.
type ports struct {
	numbers  []*int // in the server's record; 0 is none yet
	reserved []*port.Reserved
	fixed    bool
}

// reserve takes the recorded ports. Whatever has none, or has lost it, gets another one.
func (p *ports) reserve() error {
	for _, number := range p.numbers {
		held, err := takeOrReserve(*number)
		if err != nil {
			return err
		}
		*number, p.reserved = held.Number(), append(p.reserved, held)
	}
	return nil
}

func takeOrReserve(number int) (*port.Reserved, error) {
	if number != 0 {
		if held, err := port.Take(number); err == nil {
			return held, nil
		}
	}
	return port.Reserve()
}

// move takes other ports for all, and only then frees the present ones.
func (p *ports) move() error {
	defer release(p.reserved)
	p.reserved = nil
	for _, number := range p.numbers {
		*number = 0
	}
	return p.reserve()
}

func (p *ports) release() {
	release(p.reserved)
	p.reserved = nil
}

func release(reserved []*port.Reserved) {
	for _, held := range reserved {
		held.Release()
	}
}

// start starts a server whose log is in f, and starts it again on other ports as long as one
// was taken by a program that does not reserve them.
func (p *ports) start(ctx context.Context, f folder, s startable) error {
	for starts := 1; ; starts++ {
		logged := fromHere(f.log())
		err := s.tryStart(ctx, logged)
		if err == nil {
			p.fixed = true
			return nil
		}
		taken := errors.Is(err, errPortTaken) || cannotListen.MatchString(logged())
		if !taken || p.fixed || starts == maxStarts || ctx.Err() != nil {
			return err
		}
		if err := errors.Join(s.end(), p.move()); err != nil {
			return err
		}
	}
}
