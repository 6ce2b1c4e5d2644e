package servers

import (
	"testing"

	"example.com/transactional-outbox/test/servers/port"
)

// FreeAddress returns an address on which no program listens, and which no other test gets
// while this test runs.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	reserved, err := port.Reserve()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(reserved.Release)
	return reserved.Address()
}

// StartOnFreePort starts a program that cannot choose a free port by itself. It repeats the
// start with another address if the program logs that the port is in use.
func StartOnFreePort(tb testing.TB, log string, start func(address string) error) {
	tb.Helper()
	for starts := 1; ; starts++ {
		logged := logFromNow(log)
		err := start(FreeAddress(tb))
		if err == nil {
			return
		}
		if starts == maxStarts || !cannotListen.MatchString(logged()) {
			tb.Fatal(err)
		}
	}
}
