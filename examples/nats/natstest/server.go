// Package natstest starts real NATS servers for tests, as processes that a test may kill.
package natstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

// startTimeout is long, because the machine may be busy.
const startTimeout = time.Minute

// SyncAlways makes a server write each message to the disk before it confirms it. SyncDefault is
// what a server does without the setting.
const (
	SyncAlways  = "sync_interval: always"
	SyncDefault = ""
)

// Server is a NATS server with JetStream, and its data.
type Server struct {
	Address    string // host:port
	Monitoring string // http://host:port
	Store      string // the folder of its data
	folder     string
	process    *process.Process
}

// URL returns the URL of the server.
func (s *Server) URL() string { return "nats://" + s.Address }

// Start starts a server, which ends with the test. Sync is [SyncAlways] or [SyncDefault]. More is
// added to its configuration.
func Start(tb testing.TB, sync string, more ...string) *Server {
	tb.Helper()
	s := &Server{folder: tb.TempDir(), Address: servers.FreeAddress(tb)}
	monitoring := servers.FreeAddress(tb)
	s.Store, s.Monitoring = filepath.Join(s.folder, "store"), "http://"+monitoring
	config := fmt.Sprintf("listen: %q\nhttp: %q\njetstream {\n store_dir: %q\n max_file_store: 1GB\n %s\n}\n%s\n",
		s.Address, monitoring, s.Store, sync, strings.Join(more, "\n"))
	if err := os.WriteFile(s.path("config"), []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	s.Restart(tb)
	tb.Cleanup(func() {
		s.Kill(tb)
		if tb.Failed() {
			tb.Logf("the end of the log of NATS:\n%s", process.LastLines(s.path("log")))
		}
	})
	return s
}

func (s *Server) path(name string) string { return filepath.Join(s.folder, name) }

// Kill ends the server with SIGKILL.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.process.End(ctx, syscall.SIGKILL); err != nil {
		tb.Error(err)
	}
}

// Restart starts the server on its data, and kills it before that if it runs. It returns when the
// server takes connections and has recovered its streams.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.Kill(tb)
	server := exec.Command(Program(tb, ".", "github.com/nats-io/nats-server/v2"), "-c", s.path("config")) //nolint:gosec,noctx // built above; Kill ends it
	p, err := process.Start(server, process.WithParent, s.path("log"))
	if err != nil {
		tb.Fatal(err)
	}
	s.process = p
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := p.AwaitReady(ctx, s.probe); err != nil {
		tb.Fatalf("NATS does not start: %v\n%s", err, process.LastLines(s.path("log")))
	}
}

// probe asks JetStream for its state, which it answers after the recovery.
func (s *Server) probe(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return err
	}
	_ = conn.Close()
	nc, err := nats.Connect(s.URL(), nats.NoReconnect())
	if err != nil {
		return err
	}
	defer nc.Close()
	answer, err := nc.RequestWithContext(ctx, "$JS.API.INFO", nil)
	if err == nil && len(answer.Data) == 0 {
		err = errors.New("JetStream is not ready")
	}
	return err
}

// Conn connects to the server, past any proxy.
func (s *Server) Conn(tb testing.TB) *nats.Conn {
	tb.Helper()
	nc, err := nats.Connect(s.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	return nc
}
