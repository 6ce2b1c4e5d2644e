package servertest

import (
	"net"
	"sync"
)

// link is one forwarded connection.
type link struct {
	client, server *net.TCPConn
	closed         chan struct{}
	once           sync.Once
}

// forward copies in both directions until either side ends. The gate says when bytes
// may pass.
func (l *link) forward(gate func() <-chan struct{}) {
	var directions sync.WaitGroup
	directions.Go(func() { l.copy(l.server, l.client, gate) })
	directions.Go(func() { l.copy(l.client, l.server, gate) })
	directions.Wait()
}

func (l *link) copy(to, from *net.TCPConn, gate func() <-chan struct{}) {
	defer l.close() // databases and brokers know no half-closed connections
	buffer := make([]byte, 32*1024)
	for {
		n, readErr := from.Read(buffer)
		select {
		case <-gate():
		case <-l.closed:
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
