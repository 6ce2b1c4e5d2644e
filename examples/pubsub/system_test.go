package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"example.com/transactional-outbox/examples/pubsub/fake"
	"example.com/transactional-outbox/examples/pubsub/inbox"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/test/servers"
)

const (
	project      = "test"
	subscription = "notifications"
	events       = "order-events"   // the topic that the relay has by default
	limit        = time.Minute      // how long a test waits for an event before it fails
	shutdown     = 25 * time.Second // in which a process must end, by promise P12
)

var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	folder, err := os.MkdirTemp("", "pubsub-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	binary = filepath.Join(folder, "relay")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// system is everything but the relay.
type system struct {
	*testing.T
	server *fake.Server
	proxy  *servers.Proxy // in front of the server
	db     *pgxpool.Pool
	url    string
}

func newSystem(t *testing.T) system {
	t.Helper()
	s := system{T: t, server: fake.Start("127.0.0.1:0", project)}
	t.Cleanup(func() { _ = s.server.Close() })
	s.must(s.server.CreateTopic(t.Context(), events))
	s.must(s.server.Subscribe(t.Context(), events, subscription))
	s.proxy = servers.NewProxy(t, s.server.Addr)
	s.url = servers.Database(t)
	var err error
	s.db, err = pgxpool.New(t.Context(), s.url)
	s.must(err)
	t.Cleanup(s.db.Close)
	s.must(outbox.Migrate(t.Context(), s.db))
	s.must(inbox.Migrate(t.Context(), s.db))
	return s
}

func (s system) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// receive runs the consumer until the test ends.
func (s system) receive() {
	client, err := pubsub.NewClient(s.Context(), project, option.WithEndpoint(s.server.Addr), option.WithoutAuthentication(),
		option.WithTelemetryDisabled(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	s.must(err)
	ctx, stop := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- inbox.Receive(ctx, client, subscription, s.db) }()
	s.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.Error(err)
		}
		_ = client.Close()
	})
}

// place appends the events of n orders, and then a second event of each.
func (s system) place(n int) (ids []string) {
	s.Helper()
	for range n {
		ids = append(ids, uuid.NewString())
	}
	for version, topic := range []string{"order.created", "order.confirmed"} {
		for _, id := range ids {
			s.must(pgx.BeginFunc(s.Context(), s.db, func(tx pgx.Tx) error {
				return outbox.Append(s.Context(), tx, outbox.Event{
					Topic: topic, Aggregate: "order", AggregateID: id, Version: version + 1,
					Payload: fmt.Appendf(nil, `{"order_id":%q,"order_version":%d}`, id, version+1),
				})
			}))
		}
	}
	return ids
}

// relay starts a relay process. Its log is shown if the test fails.
func (s system) relay(settings ...string) *exec.Cmd {
	s.Helper()
	cmd := exec.Command(binary)
	cmd.Env = append(slices.Clone(settings), "DATABASE_URL="+s.url, "OPS_ADDR=127.0.0.1:0", "PUBSUB_PROJECT_ID="+project,
		"PUBSUB_EMULATOR_HOST="+s.proxy.Addr(), "RELAY_LEASE=5s", "RELAY_CONFIRM_TIMEOUT=1s", "RELAY_WINDOW=20")
	log, err := os.CreateTemp(s.TempDir(), "relay")
	s.must(err)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches only the test
	s.must(cmd.Start())
	s.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if text, _ := os.ReadFile(log.Name()); s.Failed() {
			s.Logf("relay %d:\n%s", cmd.Process.Pid, text)
		}
		_ = log.Close()
	})
	return cmd
}

// count runs a query that counts.
func (s system) count(query string) (n int) {
	s.Helper()
	s.must(s.db.QueryRow(s.Context(), query).Scan(&n))
	return n
}

// await polls a query until it counts at least n.
func (s system) await(what, query string, n int) {
	s.Helper()
	s.until(what, func() bool { return s.count(query) >= n })
}

func (s system) until(what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("%s: not within %s", what, limit)
		}
	}
}

const (
	published   = `SELECT count(*) FROM outbox_status WHERE status = 'published'`
	halted      = `SELECT count(*) FROM outbox_queue WHERE halted`
	refused     = `SELECT count(*) FROM outbox_status WHERE failure_code = 'refused'`
	withEffect  = `SELECT count(*) FROM effects`
	distinct    = `SELECT count(*) FROM (SELECT DISTINCT order_id, version FROM effects) e`
	outOfOrder  = `SELECT count(*) FROM effects a JOIN effects b USING (order_id) WHERE a.seq < b.seq AND a.version >= b.version`
	orderNumber = 60
)

// TestEachEventHasItsEffectOnce kills the relay after the server has stored a batch, and before the
// relay knows it. Then the server refuses, and then it is away.
func TestEachEventHasItsEffectOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.receive()
	first := s.relay()
	s.place(orderNumber)
	s.await("published by the first relay", published, orderNumber)
	s.proxy.HoldReplies()
	before := len(s.server.Messages())
	s.place(orderNumber)
	s.until("the server has stored a batch", func() bool { return len(s.server.Messages()) > before })
	s.must(first.Process.Kill())
	_ = first.Wait()
	s.proxy.Resume()

	s.server.Fail(fake.Publish, status.Error(codes.ResourceExhausted, "injected"))
	second := s.relay()
	s.await("refused events of the second relay", refused, 1)
	s.must(second.Process.Kill())
	_ = second.Wait()

	s.server.Fail(fake.Publish, status.Error(codes.Unavailable, "injected"))
	calls := s.server.Calls(fake.Publish)
	third := s.relay()
	s.until("the third relay tries again", func() bool { return s.server.Calls(fake.Publish) > calls+1 })
	s.server.Fail(fake.Publish, nil)
	const all = 2 * 2 * orderNumber
	s.await("published events", published, all)
	s.await("effects", withEffect, all)
	s.until("the messages are acknowledged", s.allAcknowledged)
	s.wantEachEffectOnce(all)
	s.wantEnd(third)
	if stored := len(s.server.Messages()); stored <= all {
		t.Errorf("the server stored %d messages of %d events: none was published twice, so the inbox was not needed", stored, all)
	}
}

// allAcknowledged reports whether the consumer has handled everything, repeats included.
func (s system) allAcknowledged() bool {
	for _, m := range s.server.Messages() {
		if m.Acks == 0 {
			return false
		}
	}
	return true
}

func (s system) wantEachEffectOnce(all int) {
	s.Helper()
	if n := s.count(withEffect); n != all {
		s.Errorf("%d effects of %d events", n, all)
	}
	if n := s.count(distinct); n != all {
		s.Errorf("only %d of %d events have an effect", n, all)
	}
	if n := s.count(outOfOrder); n != 0 {
		s.Errorf("%d pairs of effects are not in the order of their versions", n)
	}
}

// wantEnd wants a clean end after a SIGTERM.
func (s system) wantEnd(relay *exec.Cmd) {
	s.Helper()
	s.must(relay.Process.Signal(syscall.SIGTERM))
	killer := time.AfterFunc(shutdown, func() { _ = relay.Process.Kill() })
	defer killer.Stop()
	if err := relay.Wait(); err != nil {
		s.Errorf("the relay ended with: %v", err)
	}
}

// TestEventsWaitForASubscription: Pub/Sub would confirm and drop them.
func TestEventsWaitForASubscription(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.must(s.server.Unsubscribe(t.Context(), subscription))
	s.relay()
	s.place(1)
	s.await("halted events", halted, 1)
	if n := s.count(published); n != 0 {
		t.Errorf("%d events are published, and nobody listens", n)
	}
	s.must(s.server.Subscribe(t.Context(), events, subscription))
	s.receive()
	s.await("effects", withEffect, 2)
	s.wantEachEffectOnce(2)
}

// TestAFailedEventHoldsItsOrderBack has one order that the server refuses. Another order
// is published meanwhile.
func TestAFailedEventHoldsItsOrderBack(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	failing := s.place(1)[0]
	s.server.FailOrder(events, failing, status.Error(codes.InvalidArgument, "not as the schema says"))
	s.relay("RELAY_GIVE_UP=1s", "RELAY_RETRY_BASE=10ms", "RELAY_RETRY_CAP=100ms")
	s.await("a refused event", refused, 1)
	s.place(1)
	s.await("published events", published, 2)
	s.await("a failed event", `SELECT count(*) FROM outbox_status
		WHERE status = 'failed' AND failure_reason = 'InvalidArgument: not as the schema says'`, 1)
	s.server.FailOrder(events, failing, nil)
	s.place(1)
	s.await("published events", published, 4)
	if n := s.count(published); n != 4 {
		t.Errorf("%d events are published, want those of the two other orders", n)
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(binary)
	cmd.Env = []string{"RELAY_WORKERS=none", "PUBSUB_EMULATOR_HOST=no-port"}
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("it started")
	}
	for _, name := range []string{"DATABASE_URL", "PUBSUB_PROJECT_ID", "RELAY_WORKERS", "PUBSUB_EMULATOR_HOST"} {
		if !strings.Contains(string(out), name) {
			t.Errorf("the error does not name %s: %s", name, out)
		}
	}
}
