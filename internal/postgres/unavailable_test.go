package postgres_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
)

// TestErrorsOfARealServerAreUnavailable lets a server refuse work for reasons that do not depend on
// the work.
func TestErrorsOfARealServerAreUnavailable(t *testing.T) {
	t.Parallel()
	for code, test := range map[string]struct {
		setting string
		work    func(ctx context.Context, tx pgx.Tx, observer *postgres.DB) error
	}{
		"25006": {"default_transaction_read_only=on", func(ctx context.Context, tx pgx.Tx, _ *postgres.DB) error {
			return write(ctx, tx, 1)
		}},
		"25P03": {"idle_in_transaction_session_timeout=100ms", func(ctx context.Context, tx pgx.Tx, observer *postgres.DB) error {
			pid, err := readOne(ctx, tx, "SELECT pg_backend_pid()", nil, pgx.RowTo[int])
			if err != nil {
				return err
			}
			if err := awaitEnd(ctx, observer, pid); err != nil {
				return err
			}
			return write(ctx, tx, 1)
		}},
		"53400": {"temp_file_limit=64kB&work_mem=64kB", func(ctx context.Context, tx pgx.Tx, _ *postgres.DB) error {
			_, err := readOne(ctx, tx, "SELECT count(*) FROM (SELECT generate_series(1, 100000) AS n ORDER BY n DESC) AS all_of_them", nil, pgx.RowTo[int])
			return err
		}},
		"57014": {"statement_timeout=50ms", func(ctx context.Context, tx pgx.Tx, _ *postgres.DB) error {
			return postgres.Write(ctx, tx, "", "SELECT pg_sleep(60)", nil)
		}},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			observer, url := postgrestest.Migrated(t, notes)
			err := open(t, url+"&"+test.setting).InTx(t.Context(), func(tx pgx.Tx) error { return test.work(t.Context(), tx, observer) })
			if !isState(err, code) || !postgres.Unavailable(err) {
				t.Errorf("Unavailable is %t of the error %v", postgres.Unavailable(err), err)
			}
		})
	}
}

// awaitEnd waits until the server has ended a session.
func awaitEnd(ctx context.Context, observer *postgres.DB, pid int) error {
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	for sessions := 1; sessions > 0; <-ask.C {
		err := observer.InTx(ctx, func(tx pgx.Tx) (err error) {
			sessions, err = readOne(ctx, tx, "SELECT count(*) FROM pg_stat_activity WHERE pid = @pid", postgres.Args{"pid": pid}, pgx.RowTo[int])
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// TestUnavailableStates has states that no test can provoke: a full disk, and states of newer
// servers.
func TestUnavailableStates(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"08006": true, "40P01": true, "53100": true, "53200": true, "53300": true, "55P03": true, "57P01": true, "57P03": true,
		"25P04": true, "28P01": true, "3D000": true,
		"25P02": false, "25001": false, "23505": false, "42501": false, "22P02": false,
	} {
		if got := postgres.Unavailable(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("Unavailable is %t of %s, want %t", got, code, want)
		}
	}
}

// TestARefusedLoginIsUnavailable: the service has no session, whatever the server answers.
func TestARefusedLoginIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"28P01", "28000", "3D000", "42501", "55000", "XX000"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			err := open(t, refusingServer(t, code)).InTx(t.Context(), func(tx pgx.Tx) error { return write(t.Context(), tx, 1) })
			if !isState(err, code) || !postgres.Unavailable(err) {
				t.Errorf("Unavailable is %t of %v", postgres.Unavailable(err), err)
			}
		})
	}
}

// refusingServer answers every login with an error. It returns its URL.
func refusingServer(t *testing.T, code string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			login := pgproto3.NewBackend(conn, conn)
			_, _ = login.ReceiveStartupMessage()
			login.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: "no"})
			_ = login.Flush()
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return "postgres://someone@" + listener.Addr().String() + "/some?sslmode=disable"
}
