package servers

import (
	"net"
	"sync"
	"sync/atomic"
)

// link is one forwarded connection.
type link struct {
	client, server *net.TCPConn
	closed         chan struct{}
	once           sync.Once
	dropsReply     atomic.Bool // the next reply is dropped
	frozen         atomic.Bool // nothing is forwarded
}

// forward copies in both directions until either side closes its connection.
func (l *link) forward(p *Proxy) {
	var directions sync.WaitGroup
	directions.Go(func() { l.copy(l.server, l.client, p) })
	directions.Go(func() { l.copy(l.client, l.server, p) })
	directions.Wait()
}

func (l *link) copy(to, from *net.TCPConn, p *Proxy) {
	defer l.close() // databases and brokers do not use half-closed connections
	buffer := make([]byte, 32*1024)
	for {
		n, readErr := from.Read(buffer)
		p.pause(l.closed)
		if !p.await(l, to) {
			return
		}
		switch {
		case l.frozen.Load():
			if readErr != nil {
				<-l.closed // the other side does not notice the end either
				return
			}
			continue // the data is lost
		case to == l.server && p.dropsReplyTo(buffer[:n]):
			l.dropsReply.Store(true)
		case to == l.client && l.dropsReply.Load():
			p.drop(l)
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil || readErr != nil {
			return
		}
	}
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.closed)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// reset closes both connections with an RST, and discards data in flight.
func (l *link) reset() {
	_ = l.client.SetLinger(0)
	_ = l.server.SetLinger(0)
	l.close()
}
