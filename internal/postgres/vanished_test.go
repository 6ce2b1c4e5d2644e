package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/test/servers"
)

// TestTheLocksOfAVanishedMachineAreReleased has a client whose network fails in the middle of
// a transaction. The server gets nothing from it, not even the end of the connection.
func TestTheLocksOfAVanishedMachineAreReleased(t *testing.T) {
	t.Parallel()
	db, direct := postgrestest.Migrated(t, notes)
	proxy, through := servers.ProxyFor(t, direct)
	vanished, err := postgres.Open(t.Context(), through, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(vanished.Close)
	holds, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- vanished.InTx(t.Context(), func(tx pgx.Tx) error {
			if err := write(t.Context(), tx, 1); err != nil {
				return err
			}
			proxy.Stall()
			close(holds)
			<-t.Context().Done()
			return t.Context().Err()
		})
	}()
	t.Cleanup(func() {
		proxy.Cut()
		if err := <-ended; err == nil {
			t.Error("the vanished transaction was committed")
		}
	})
	<-holds
	if err := db.InTx(t.Context(), func(tx pgx.Tx) error { return write(t.Context(), tx, 1) }); err != nil {
		t.Errorf("nobody else can do its work: %v", err)
	}
}
