package servertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const localhost = "127.0.0.1"

// freePort returns a port that nobody listens on. It lies below the range from
// which systems take the ports of outgoing connections, so that a server that was
// stopped finds its port free again.
func freePort() (int, error) {
	const lowest, count, tries = 20000, 12000, 100
	for range tries {
		port := lowest + rand.IntN(count)
		if listener, err := net.Listen("tcp", address(port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("no free port on %s between %d and %d", localhost, lowest, lowest+count)
}

// FreeAddress returns where a test may make a program listen that cannot choose a port by
// itself.
func FreeAddress() (string, error) {
	port, err := freePort()
	return address(port), err
}

func freePorts(ports ...*int) (err error) {
	for _, port := range ports {
		if *port, err = freePort(); err != nil {
			return err
		}
	}
	return nil
}

func address(port int) string { return net.JoinHostPort(localhost, strconv.Itoa(port)) }
