// Package port reserves ports for the servers of tests, among all tests on this machine.
//
// Whoever finds a free port and frees it again may lose it before a server listens there.
// So each port has a lock file, in a folder that all users share. Who reserves the port
// locks the file until the server has ended; the kernel unlocks it when a process dies.
//
// The ports lie outside the range from which the kernel takes those of outgoing connections.
package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const localhost = "127.0.0.1"

// Reserved is a port that no other test gets, and where nobody listened when it was taken.
type Reserved struct {
	number int
	lock   *os.File
}

// Reserve takes any free port, until Release or the end of this process.
func Reserve() (*Reserved, error) {
	const tries = 200
	lowest, highest := forServers()
	var last error
	for range tries {
		r, err := Take(lowest + rand.IntN(highest-lowest+1))
		if err == nil {
			return r, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no free port between %d and %d: %w", lowest, highest, last)
}

// Take reserves this port, or says why it cannot be had.
func Take(number int) (*Reserved, error) {
	lock, err := openLock(number)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil { // else it is another's, whose server must not meet us there
		err = tryListen(number)
	}
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("port %d: %w", number, err)
	}
	return &Reserved{number, lock}, nil
}

// Number is the port's.
func (r *Reserved) Number() int { return r.number }

// Address is where a server listens that has this port.
func (r *Reserved) Address() string { return Address(r.number) }

// Release lets others have the port. The lock file stays: another process may be about to
// lock it, and would lock one that nobody finds.
func (r *Reserved) Release() { _ = r.lock.Close() }

// Address is this port on this machine.
func Address(number int) string { return net.JoinHostPort(localhost, strconv.Itoa(number)) }

// openLock opens the lock file of a port. It creates one only where there is none: in such
// a folder, Linux refuses O_CREATE for the files of other users.
func openLock(number int) (*os.File, error) {
	folder, err := lockFolder()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, strconv.Itoa(number))
	lock, err := os.Open(path)
	if !errors.Is(err, os.ErrNotExist) {
		return lock, err
	}
	if lock, err = os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644); err != nil {
		return nil, err
	}
	return lock, lock.Chmod(0o644) // whatever the umask
}

// lockFolder is where all users may add files, and each may remove only his own.
func lockFolder() (string, error) {
	folder := filepath.Join(os.TempDir(), "servertest-ports")
	err := os.Mkdir(folder, 0o700)
	if errors.Is(err, os.ErrExist) {
		return folder, nil
	}
	if err != nil {
		return "", err
	}
	return folder, os.Chmod(folder, 0o777|os.ModeSticky) // Mkdir minds the umask
}

// tryListen looks at all addresses on which a server of a test may listen: epmd takes the
// one of IPv6 as well.
func tryListen(number int) error {
	for _, host := range []string{localhost, "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(number)))
		if errors.Is(err, syscall.EADDRINUSE) || err != nil && host == localhost { // there may be no IPv6
			return err
		}
		if err == nil {
			_ = listener.Close()
		}
	}
	return nil
}
