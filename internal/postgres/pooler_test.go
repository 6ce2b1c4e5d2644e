package postgres_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"example.com/transactional-outbox/internal/postgres"
)

// TestListenRefusesAPooler has a server whose sessions have another process id than it said at the
// start. PgBouncer does the same.
func TestListenRefusesAPooler(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	served := make(chan error, 1)
	go func() { served <- servePooler(listener) }()
	url := "postgres://app@" + listener.Addr().String() + "/app?sslmode=disable"
	err = postgres.Listen(t.Context(), url, "channel", func() { t.Error("it listens") }, func() {})
	if !errors.Is(err, postgres.ErrPooler) {
		t.Errorf("error %v, want %v", err, postgres.ErrPooler)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// servePooler tells one client that its process id is 1, and answers each of its queries with 2.
func servePooler(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(listenTestTimeout)); err != nil {
		return err
	}
	client := pgproto3.NewBackend(conn, conn)
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return err
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 0}})
	for {
		client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if err := client.Flush(); err != nil {
			return err
		}
		message, err := client.Receive()
		if err != nil {
			return err
		}
		if _, asked := message.(*pgproto3.Query); !asked {
			return nil
		}
		const int4 = 23
		client.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("pid"), DataTypeOID: int4, DataTypeSize: 4}}})
		client.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("2")}})
		client.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
	}
}
