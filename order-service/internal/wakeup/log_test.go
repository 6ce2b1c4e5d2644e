package wakeup_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/order-service/internal/wakeup"
)

// logged returns what is logged while do runs.
func logged(t *testing.T, do func()) string {
	t.Helper()
	before := slog.Default()
	defer slog.SetDefault(before)
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	do()
	return log.String()
}

func wantLines(t *testing.T, log string, want map[string]int) {
	t.Helper()
	for text, times := range want {
		if got := strings.Count(log, text); got != times {
			t.Errorf("%q is logged %d times, want %d, in:\n%s", text, got, times, log)
		}
	}
}

//nolint:paralleltest // it replaces the default logger
func TestANotifierLogsItsFailureOnce(t *testing.T) {
	log := logged(t, func() {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			n := wakeup.NewNotifierWith(func(context.Context) error {
				if tries++; tries <= 3 {
					return errors.New("away")
				}
				return nil
			})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			n.Committed()
			_ = n.Run(ctx, nil)
		})
	})
	wantLines(t, log, map[string]int{"cannot notify": 1, "notifying the relays of other processes again": 1})
}

// TestAListenerLogsItsLossOnce uses a server that closes each connection.
//
//nolint:paralleltest // it replaces the default logger
func TestAListenerLogsItsLossOnce(t *testing.T) {
	const tries = 8
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), waitTimeout)
	defer stop()
	go func() {
		defer stop()
		for range tries {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
		_ = server.Close()
	}()
	log := logged(t, func() {
		url := "postgres://app@" + server.Addr().String() + "/app?sslmode=disable"
		if err := wakeup.NewListener(url, func() {}, prometheus.NewRegistry()).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	wantLines(t, log, map[string]int{"not listening": 1})
}
