package postgres_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/servers"
)

// TestATransactionHasItsOwnDeadline: the caller's context has none. The connection freezes where a
// transaction waits for the server. It loses its place in the pool, which has one: the driver alone
// would keep the place for another 15 s.
func TestATransactionHasItsOwnDeadline(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(db *postgres.DB, ctx context.Context, freeze func()) error{
		"for the answer to its first statement": func(db *postgres.DB, ctx context.Context, freeze func()) error {
			freeze()
			return writing(ctx, db, 1)
		},
		"for the answer to another": func(db *postgres.DB, ctx context.Context, freeze func()) error {
			return db.InGorm(ctx, func(tx *gorm.DB) error {
				freeze()
				return write(tx, 1)
			})
		},
		"for the commit": func(db *postgres.DB, ctx context.Context, freeze func()) error {
			return db.InGorm(ctx, func(tx *gorm.DB) error {
				defer freeze()
				return write(tx, 1)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, direct := postgrestest.Migrated(t, notes)
			proxy, through := servers.ProxyFor(t, direct)
			db := open(t, through, 1, postgres.TxTimeout(time.Second))
			check.Must(t, db.Ping(t.Context()))
			if err := wait(db, t.Context(), proxy.Freeze); !errors.Is(err, context.DeadlineExceeded) || !postgres.Unavailable(err) {
				t.Errorf("error %v, want a deadline that was exceeded", err)
			}
			soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := db.Ping(soon); err != nil {
				t.Errorf("no other connection: %v", err)
			}
		})
	}
}

// TestADeadConnectionEnds on both sides. It checks the options only: a proxy cannot drop packets, so
// that the kernel gets no acknowledgements.
func TestADeadConnectionEnds(t *testing.T) {
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
	if limit := db.Pool().Config().PingTimeout; limit != 2*time.Second {
		t.Errorf("a connection that was idle is checked within %s", limit)
	}
	for name, want := range map[string]string{
		"idle_in_transaction_session_timeout": "10s", "tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3",
	} {
		if got := read[string](t, db, "SELECT current_setting('"+name+"')"); got != want {
			t.Errorf("the server's %s is %s, want %s", name, got, want)
		}
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	_, url := postgrestest.Migrated(t, notes)
	impatient := open(t, url, 4, postgres.StatementTimeout(50*time.Millisecond))
	readOnly := open(t, url+"&default_transaction_read_only=on", 4)
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	exec := func(db *postgres.DB, statement string) error {
		_, err := db.Pool().Exec(t.Context(), statement)
		return err
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"a deadline":       {impatient.Ping(late), true},
		"a slow statement": {exec(impatient, "SELECT pg_sleep(60)"), true},
		"read-only":        {exec(readOnly, "INSERT INTO notes VALUES (1)"), true},
		"our mistake":      {exec(impatient, "SELECT * FROM nothing"), false},
	} {
		if test.err == nil || postgres.Unavailable(test.err) != test.want {
			t.Errorf("%s: Unavailable is %t of %v", name, postgres.Unavailable(test.err), test.err)
		}
	}
	for code, want := range map[string]bool{ // a full disk, and others that no test can provoke
		"08006": true, "40P01": true, "53100": true, "53200": true, "53300": true, "53400": true, "55P03": true, "57014": true, "57P01": true, "57P03": true,
		"25P03": true, "25P04": true, "28P01": true, "3D000": true,
		"25P02": false, "25001": false, "23505": false, "42501": false, "22P02": false,
	} {
		if got := postgres.Unavailable(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("Unavailable is %t of %s, want %t", got, code, want)
		}
	}
	for _, code := range []string{"28P01", "28000", "3D000", "42501", "55000", "XX000"} { // there is no session, whatever the answer
		err := writing(t.Context(), open(t, refusingServer(t, code), 1), 1)
		if server, ok := errors.AsType[*pgconn.PgError](err); !ok || server.Code != code || !postgres.Unavailable(err) {
			t.Errorf("Unavailable is %t of %v", postgres.Unavailable(err), err)
		}
	}
}

// refusingServer answers every login with an error. It returns its URL.
func refusingServer(t *testing.T, code string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
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
