// Package port reserves ports for the servers of tests, among all tests on this machine.
//
// A port that a test finds free may be in use before the server of the test listens on it. So
// each port has a lock file, in a folder that all users share. A test locks the file until its
// server has ended. The kernel unlocks it when the process of the test dies.
//
// The ports are outside the range that the kernel uses for outgoing connections.
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

// Reserved is a port that no other test gets. When it was reserved, no program listened on it.
type Reserved struct {
	number int
	lock   *os.File
}

// Reserve reserves any free port, until Release or the end of this process.
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

// Take reserves this port, or returns an error.
func Take(number int) (*Reserved, error) {
	lock, err := openLock(number)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil { // otherwise another test has it, whose server may be about to listen
		err = tryListen(number)
	}
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("port %d: %w", number, err)
	}
	return &Reserved{number, lock}, nil
}

// Number returns the number of the port.
func (r *Reserved) Number() int { return r.number }

// Address returns the address of this port on this machine.
func (r *Reserved) Address() string { return Address(r.number) }

// Release allows others to reserve the port. It does not remove the lock file: another process
// may have opened it, and would then lock a file that no one else finds.
func (r *Reserved) Release() { _ = r.lock.Close() }

// Address returns the address of a port on this machine.
func Address(number int) string { return net.JoinHostPort(localhost, strconv.Itoa(number)) }

// openLock opens the lock file of a port. It uses O_CREATE only if the file is missing: in a
// sticky folder, Linux refuses O_CREATE for files of other users.
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
	return lock, lock.Chmod(0o644) // not limited by the umask
}

// lockFolder returns a sticky folder: all users may add files, and remove only their own.
func lockFolder() (string, error) {
	folder := filepath.Join(os.TempDir(), "test-servers-ports")
	err := os.Mkdir(folder, 0o700)
	if errors.Is(err, os.ErrExist) {
		return folder, nil
	}
	if err != nil {
		return "", err
	}
	return folder, os.Chmod(folder, 0o777|os.ModeSticky) // Mkdir applies the umask
}

// tryListen tries all addresses on which a server of a test may listen; epmd also listens on
// IPv6. It allows no process to start meanwhile: between fork and exec, a child has a copy of
// the listener, which would use the port after we have closed ours.
func tryListen(number int) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for _, host := range []string{localhost, "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(number)))
		// There may be no IPv6.
		if errors.Is(err, syscall.EADDRINUSE) || err != nil && host == localhost {
			return err
		}
		if err == nil {
			_ = listener.Close()
		}
	}
	return nil
}
