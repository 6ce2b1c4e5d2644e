package servertest

import (
	"testing"

	"example.com/transactional-outbox/internal/servertest/port"
)

// FreeAddress returns an address where nobody listens, and where no other test will while
// this one runs.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	held, err := port.Reserve()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(held.Release)
	return held.Address()
}

// OnFreePort starts a program that cannot choose a port by itself. It starts it again at
// another address when it has logged that the first one is taken.
func OnFreePort(tb testing.TB, log string, start func(address string) error) {
	tb.Helper()
	for starts := 1; ; starts++ {
		logged := fromHere(log)
		err := start(FreeAddress(tb))
		if err == nil {
			return
		}
		if starts == maxStarts || !cannotListen.MatchString(logged()) {
			tb.Fatal(err)
		}
	}
}
