package servers

import (
	"context"
	"errors"
	"regexp"

	"example.com/transactional-outbox/test/servers/port"
)

const localhost = "127.0.0.1"

// maxStarts limits the starts of a server whose ports are in use.
const maxStarts = 5

// errPortInUse reports a port in use for a server that does not log it.
var errPortInUse = errors.New("its port is in use")

// cannotListen matches the logs of the other servers: of PostgreSQL, epmd and Go programs, of
// Erlang, and of RabbitMQ for its distribution port.
var cannotListen = regexp.MustCompile(`(?i)address already in use|eaddrinuse|dist_port_already_used`)

// startable is a server that can be started again on other ports.
type startable interface {
	tryStart(ctx context.Context, logged func() string) error
	end() error
}

// ports are the ports of one server, reserved until it is closed. After its first start they
// are fixed, because clients know them.
type ports struct {
	numbers  []*int // point into the server's record; 0 means not chosen yet
	reserved []*port.Reserved
	fixed    bool
}

// reserve reserves the recorded ports. It chooses another port where there is none yet, or
// where the recorded one is in use.
func (p *ports) reserve() error {
	for _, number := range p.numbers {
		r, err := takeOrReserve(*number)
		if err != nil {
			return err
		}
		*number, p.reserved = r.Number(), append(p.reserved, r)
	}
	return nil
}

func takeOrReserve(number int) (*port.Reserved, error) {
	if number != 0 {
		if r, err := port.Take(number); err == nil {
			return r, nil
		}
	}
	return port.Reserve()
}

// move reserves other ports, and then releases the present ones.
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
	for _, r := range reserved {
		r.Release()
	}
}

// start starts a server whose log is in f. If another program uses one of its ports, it starts
// the server again on other ports.
func (p *ports) start(ctx context.Context, f folder, s startable) error {
	for starts := 1; ; starts++ {
		logged := logFromNow(f.log())
		err := s.tryStart(ctx, logged)
		if err == nil {
			p.fixed = true
			return nil
		}
		inUse := errors.Is(err, errPortInUse) || cannotListen.MatchString(logged())
		if !inUse || p.fixed || starts == maxStarts || ctx.Err() != nil {
			return err
		}
		if err := errors.Join(s.end(), p.move()); err != nil {
			return err
		}
	}
}
