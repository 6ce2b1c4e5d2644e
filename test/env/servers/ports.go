package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

const localhost = "127.0.0.1"

// The ports of tests are below those that most systems use for outgoing connections: from 32768 or
// 49152. The first port of a block belongs to the process that has the block.
const (
	lowestPort = 20000
	blockSize  = 100
	blocks     = 120
)

var ports struct {
	sync.Mutex
	free   []int
	guards []net.Listener // on the first port of each block
}

// takePort returns a port on which no program listens, and which no other process of tests takes
// while this one runs. A process takes whole blocks: it listens on the first port of a block, which
// needs no cleanup after a SIGKILL.
func takePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for {
		for len(ports.free) > 0 {
			number := ports.free[0]
			ports.free = ports.free[1:]
			if isFree(number) {
				return number, nil
			}
		}
		if err := takeBlock(); err != nil {
			return 0, err
		}
	}
}

func takeBlock() error {
	for _, block := range rand.Perm(blocks) {
		first := lowestPort + block*blockSize
		guard, err := net.Listen("tcp", addressOf(first))
		if err != nil {
			continue // another process has it
		}
		ports.guards = append(ports.guards, guard)
		for number := first + 1; number < first+blockSize; number++ {
			ports.free = append(ports.free, number)
		}
		return nil
	}
	return fmt.Errorf("no block of ports is free between %d and %d", lowestPort, lowestPort+blocks*blockSize)
}

// releasePorts lets this process use ports again. It uses the one last that was released last.
func releasePorts(numbers ...int) {
	ports.Lock()
	defer ports.Unlock()
	ports.free = append(ports.free, numbers...)
}

// choosePorts sets each port that is not chosen yet, or that another program uses.
func choosePorts(numbers ...*int) (err error) {
	for _, number := range numbers {
		if *number != 0 && isFree(*number) {
			continue
		}
		if *number, err = takePort(); err != nil {
			return err
		}
	}
	return nil
}

// isFree tries all addresses on which a server of a test may listen; epmd also listens on IPv6. No
// process may start meanwhile: between fork and exec, a child has a copy of the listener.
func isFree(number int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for _, host := range []string{localhost, "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(number)))
		// There may be no IPv6.
		if errors.Is(err, syscall.EADDRINUSE) || err != nil && host == localhost {
			return false
		}
		if err == nil {
			_ = listener.Close()
		}
	}
	return true
}

func addressOf(port int) string { return net.JoinHostPort(localhost, strconv.Itoa(port)) }

// FreeAddress returns an address on which no program listens, and which no other test gets while
// this test runs.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	number, err := takePort()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { releasePorts(number) })
	return addressOf(number)
}
