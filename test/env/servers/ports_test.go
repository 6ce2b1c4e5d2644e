package servers_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/env/servers"
)

// TestNoPortIsGivenTwice takes ports in this process and in another one, which runs this test's
// binary. A program of somebody else uses one port of this process's block.
func TestNoPortIsGivenTwice(t *testing.T) {
	address := servers.FreeAddress(t)
	if os.Getenv("PRINT_ADDRESS") != "" {
		_, _ = os.Stdout.WriteString(address + "\n")
		return
	}
	taken := map[string]bool{address: true}
	listener, err := net.Listen("tcp", address)
	must(t, err)
	defer func() { _ = listener.Close() }()
	for range 150 { // more than one block
		if a := servers.FreeAddress(t); taken[a] {
			t.Errorf("%s was given twice", a)
		} else {
			taken[a] = true
		}
	}
	for range 5 {
		other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoPortIsGivenTwice$")
		other.Env = append(os.Environ(), "PRINT_ADDRESS=1")
		output, err := other.Output()
		must(t, err)
		if got, _, _ := strings.Cut(string(output), "\n"); taken[got] || got == "" {
			t.Errorf("another process got %q as well", got)
		}
	}
}
