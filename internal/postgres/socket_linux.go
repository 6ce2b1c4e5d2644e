package postgres

import (
	"strings"
	"syscall"
)

// tcpUserTimeout is the socket option TCP_USER_TIMEOUT, which package syscall does not
// name. https://man7.org/linux/man-pages/man7/tcp.7.html
const tcpUserTimeout = 18

// setUserTimeout makes the kernel end a connection whose data is not acknowledged.
func setUserTimeout(network, _ string, conn syscall.RawConn) (err error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	failed := conn.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(userTimeout.Milliseconds()))
	})
	if failed != nil {
		return failed
	}
	return err
}
