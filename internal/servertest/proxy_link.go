package servertest

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
	deaf           atomic.Bool // the next reply is dropped
	frozen         atomic.Bool // nothing is forwarded
}

// forward copies in both directions until either side ends. The proxy says when bytes
// may pass.
func (l *link) forward(p *Proxy) {
	var directions sync.WaitGroup
	directions.Go(func() { l.copy(l.server, l.client, p) })
	directions.Go(func() { l.copy(l.client, l.server, p) })
	directions.Wait()
}

func (l *link) copy(to, from *net.TCPConn, p *Proxy) {
	defer l.close() // databases and brokers know no half-closed connections
	buffer := make([]byte, 32*1024)
	for {
		n, readErr := from.Read(buffer)
		p.pause(l.closed)
		select {
		case <-p.gate():
		case <-l.closed:
			return
		}
		switch {
		case l.frozen.Load():
			if readErr != nil {
				<-l.closed // that one side has ended is lost as well
				return
			}
			continue // what was read is lost
		case to == l.server && p.isDeafTo(buffer[:n]):
			l.deaf.Store(true)
		case to == l.client && l.deaf.Load():
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

// reset closes with the data in flight thrown away, which TCP tells the peer with an RST.
func (l *link) reset() {
	_ = l.client.SetLinger(0)
	_ = l.server.SetLinger(0)
	l.close()
}
