package port

import (
	"fmt"
	"os"
)

const (
	lowestChosen, highestChosen = 20000, 31999 // below what most systems give to outgoing connections
	lowestOffered               = 10000        // below are the ports of well-known services
	highestOffered              = 65535
	enough                      = 1000 // so many tests find free ones by chance
)

// forServers returns the range from which ports are reserved.
func forServers() (lowest, highest int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil { // not Linux: BSD and macOS begin at 49152
		return lowestChosen, highestChosen
	}
	return outside(string(text))
}

// outside avoids the range of outgoing connections. Where that leaves too few ports, a
// server may lose its port after all, and is started again on another one.
func outside(outgoing string) (lowest, highest int) {
	var first, last int
	if n, _ := fmt.Sscan(outgoing, &first, &last); n < 2 || last < lowestChosen || first > highestChosen {
		return lowestChosen, highestChosen
	}
	below, above := first-lowestOffered, highestOffered-last
	switch {
	case max(below, above) < enough:
		return lowestChosen, highestChosen
	case below > above:
		return lowestOffered, first - 1
	default:
		return last + 1, highestOffered
	}
}
