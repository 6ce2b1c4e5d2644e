package port_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"example.com/transactional-outbox/test/servers/port"
)

// TestReservedPortIsExclusive tries to take the port in this process and in another one, which
// runs this test's binary. The lock ends with the process that holds it.
func TestReservedPortIsExclusive(t *testing.T) {
	if wanted := os.Getenv("WANTED_PORT"); wanted != "" {
		number, err := strconv.Atoi(wanted)
		must(t, err)
		_, err = port.Take(number)
		must(t, err)
		os.Exit(0) // without a release
	}
	t.Parallel()
	r := reserve(t)
	if _, err := port.Take(r.Number()); err == nil {
		t.Error("it was reserved twice in one process")
	}
	if err := takeElsewhere(t, r.Number()); err == nil {
		t.Error("another process got it as well")
	}
	r.Release()
	if err := takeElsewhere(t, r.Number()); err != nil {
		t.Errorf("another process does not get it after its release: %v", err)
	}
	again, err := port.Take(r.Number())
	if err != nil {
		t.Fatalf("it is still reserved after the end of the process that had it: %v", err)
	}
	again.Release()
}

func takeElsewhere(t *testing.T, number int) error {
	t.Helper()
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReservedPortIsExclusive$")
	other.Env = append(os.Environ(), "WANTED_PORT="+strconv.Itoa(number))
	return other.Run()
}

func TestPortInUseIsNotReserved(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "0.0.0.0", "::1"} {
		r := reserve(t)
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(r.Number())))
		if err != nil && host == "::1" {
			t.Logf("no IPv6 here: %v", err)
			continue
		}
		must(t, err)
		r.Release()
		if _, err := port.Take(r.Number()); err == nil {
			t.Errorf("it was reserved although a program listens on %s", listener.Addr())
		}
		must(t, listener.Close())
	}
}

// TestReservedPortIsFreeWhileProcessesStart starts processes all the time. For a moment, a new
// process has copies of the file descriptors of its parent.
func TestReservedPortIsFreeWhileProcessesStart(t *testing.T) {
	t.Parallel()
	starting, stop := context.WithCancel(t.Context())
	var starters sync.WaitGroup
	for range 4 {
		starters.Go(func() {
			for starting.Err() == nil {
				_ = exec.CommandContext(starting, "true").Run()
			}
		})
	}
	for range 2000 {
		r := reserve(t)
		listener, err := net.Listen("tcp", r.Address())
		if err != nil {
			t.Error(err)
			break
		}
		must(t, listener.Close())
		r.Release()
	}
	stop()
	starters.Wait()
}

func TestReservedPortsAreOutsideTheEphemeralRange(t *testing.T) {
	t.Parallel()
	for outgoing, want := range map[string][2]int{
		"32768\t60999\n": {20000, 31999},
		"49152 65535":    {20000, 31999},
		"1024 9999":      {20000, 31999},
		"15000 64000":    {10000, 14999},
		"12000 40000":    {40001, 65535},
		"1024 65535":     {20000, 31999}, // no other port is left
		"no numbers":     {20000, 31999},
	} {
		if lowest, highest := port.Outside(outgoing); [2]int{lowest, highest} != want {
			t.Errorf("outside %q: from %d to %d, want %v", outgoing, lowest, highest, want)
		}
	}
}

func reserve(t *testing.T) *port.Reserved {
	t.Helper()
	r, err := port.Reserve()
	must(t, err)
	t.Cleanup(r.Release)
	if want := fmt.Sprintf("127.0.0.1:%d", r.Number()); r.Address() != want {
		t.Errorf("its address is %s, want %s", r.Address(), want)
	}
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
