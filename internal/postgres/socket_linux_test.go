package postgres_test

import (
	"syscall"
	"testing"

	"example.com/transactional-outbox/internal/postgres/postgrestest"
)

// TestSocketOptionsEndADeadConnection checks the options only: a proxy cannot drop packets, so that
// the kernel gets no acknowledgements.
func TestSocketOptionsEndADeadConnection(t *testing.T) {
	t.Parallel()
	db, _ := postgrestest.Migrated(t, notes)
	const tcpUserTimeout = 18
	for name, limit := range map[int]int{tcpUserTimeout: 15_000, syscall.TCP_KEEPIDLE: 10, syscall.TCP_KEEPINTVL: 5, syscall.TCP_KEEPCNT: 3} {
		var got int
		var failed error
		err := db.OnSocket(t.Context(), func(fd uintptr) { got, failed = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, name) })
		if err != nil || failed != nil || got != limit {
			t.Errorf("socket option %d is %d, want %d; errors %v, %v", name, got, limit, err, failed)
		}
	}
}
