package port

import (
	"fmt"
	"os"
)

const (
	// Most systems use higher ports for outgoing connections.
	lowestDefault, highestDefault = 20000, 31999

	lowestAllowed  = 10000 // well-known services use lower ports
	highestAllowed = 65535
	enough         = 1000 // enough for tests to find a free port by chance
)

// forServers returns the range from which ports are reserved.
func forServers() (lowest, highest int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil { // not Linux: BSD and macOS begin at 49152
		return lowestDefault, highestDefault
	}
	return outside(string(text))
}

// outside avoids the range of outgoing connections. If that leaves too few ports, the default
// range may overlap it: then a server may find its port in use, and starts on another one.
func outside(outgoing string) (lowest, highest int) {
	var first, last int
	if n, _ := fmt.Sscan(outgoing, &first, &last); n < 2 || last < lowestDefault || first > highestDefault {
		return lowestDefault, highestDefault
	}
	below, above := first-lowestAllowed, highestAllowed-last
	switch {
	case max(below, above) < enough:
		return lowestDefault, highestDefault
	case below > above:
		return lowestAllowed, first - 1
	default:
		return last + 1, highestAllowed
	}
}
