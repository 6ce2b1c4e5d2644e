// Package importers_test kills two programs under load that use the library and nothing else of this
// repository. Both were written from the documentation alone.
package importers_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/env/broker"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/load"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shops are two services in one program: each has a schema with its orders and its outbox.
var shops = []string{"a", "b"}

// kills is how often a process is killed.
const kills = 6

// TestP1P2P3P4P5P7WithWebhooks: database/sql, and an endpoint for each shop. It refuses each tenth
// message, and takes it later.
func TestP1P2P3P4P5P7WithWebhooks(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls, received := 0, map[string][]broker.Message{}
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%10 == 0 || err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		shop := filepath.Base(r.URL.Path)
		received[shop] = append(received[shop], broker.Message{ID: r.Header.Get("Message-Id"), Key: r.Header.Get("Topic"), Body: body})
	}))
	t.Cleanup(endpoint.Close)
	allowed := checker.Allowance{Refusals: true, Duplicates: kills * 100}
	settings := []string{"WEBHOOKS_A=all=" + endpoint.URL + "/a", "WEBHOOKS_B=all=" + endpoint.URL + "/b"}
	run(t, "webhook", settings, "true", allowed, func(shop string) []broker.Message {
		mu.Lock()
		defer mu.Unlock()
		return received[shop]
	})
}

// TestP1P2P3P4P5P7WithGormAndRabbitMQ: each shop has an exchange, and consumes its own events.
func TestP1P2P3P4P5P7WithGormAndRabbitMQ(t *testing.T) {
	t.Parallel()
	url := servers.BrokerURL(t)
	conn, err := amqp.Dial(url)
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	channel, err := conn.Channel()
	check.Must(t, err)
	prefix, client := "test."+rand.Text()+".", broker.Broker{URLs: []string{url}}
	for _, shop := range shops {
		exchange := prefix + shop
		received := exchange + ".received"
		retries := []string{received + ".retry.30s", received + ".retry.1m", received + ".retry.5m"} // exchanges and queues
		t.Cleanup(func() {
			check.Must(t, client.DeleteQueues(context.Background(), append(retries, exchange+".tap", received, received+".dlq")...))
			check.Must(t, client.DeleteExchanges(context.Background(), append(retries, exchange, received+".dlx", received+".requeue")...))
		})
		check.Must(t, channel.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
		_, err := channel.QueueDeclare(exchange+".tap", true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
		check.Must(t, err)
		check.Must(t, channel.QueueBind(exchange+".tap", "#", exchange, false, nil))
	}
	settings := []string{"AMQP_URL=" + url, "EXCHANGE_PREFIX=" + prefix}
	const handled = "(SELECT count(DISTINCT message_id) FROM received) = (SELECT count(*) FROM outbox_status)"
	pools := run(t, "gorm", settings, handled, checker.Allowance{Duplicates: kills * 5000}, func(shop string) []broker.Message {
		all, err := client.Drain(t.Context(), prefix+shop+".tap")
		check.Must(t, err)
		return all
	})
	for shop, pool := range pools { // each message once, however often it came
		effects := check.Value[string](t, pool, `SELECT format('%s of %s events', count(DISTINCT message_id), count(*)) FROM received`)
		if events := check.Value[int](t, pool, "SELECT count(*) FROM outbox_status"); effects != fmt.Sprintf("%d of %[1]d events", events) {
			t.Errorf("shop %s has the effects of %s, and %d events", shop, effects, events)
		}
	}
}

// run builds a program, kills two processes of it again and again under load, and stops both when
// nothing waits in the outbox and the condition done is true. Then it compares what each shop has
// with what its destination has received.
func run(
	t *testing.T, program string, settings []string, done string, allowed checker.Allowance, received func(shop string) []broker.Message,
) map[string]*pgxpool.Pool {
	t.Helper()
	url, binary := servers.Database(t), filepath.Join(t.TempDir(), program)
	check.Run(t, exec.CommandContext(t.Context(), "go", "build", "-C", "../../..", "-o", binary, "./examples/"+program))
	var mu sync.Mutex
	var processes [2]*process.Process
	var targets [2]string
	start := func(i int) *process.Process {
		address, log := servers.FreeAddress(t), filepath.Join(t.TempDir(), "log")
		command := exec.Command(binary)
		command.Env = slices.Concat(settings, []string{"DATABASE_URL=" + url, "ADDR=" + address})
		p, err := process.Start(command, process.WithParent, log)
		check.Must(t, err)
		mu.Lock()
		defer mu.Unlock()
		processes[i], targets[i] = p, "http://"+address
		return p
	}
	awaitReady := func(i int, p *process.Process) {
		check.Await(t, "a process that is ready", func() bool { return isReady(targets[i]) || !p.Alive() })
		if !p.Alive() {
			t.Fatalf("%s has ended: %s", program, p.State())
		}
	}
	began := time.Now()
	first, second := start(0), start(1) // they make the tables at the same time
	awaitReady(0, first)
	awaitReady(1, second)

	loading, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	loads := map[string]*load.Load{}
	for _, shop := range shops {
		l := load.New(func() []string {
			mu.Lock()
			defer mu.Unlock()
			return []string{targets[0] + "/" + shop, targets[1] + "/" + shop}
		}, 4, 100)
		l.Patience = check.Limit
		loads[shop] = l
		clients.Go(func() { l.Run(loading, 4) })
	}
	for n := range kills {
		before := loads["b"].Acknowledged()
		check.Await(t, "more orders", func() bool { return loads["b"].Acknowledged() >= before+50 })
		check.Must(t, processes[n%2].End(t.Context(), syscall.SIGKILL))
		awaitReady(n%2, start(n%2))
	}
	stop()
	clients.Wait()

	pools := map[string]*pgxpool.Pool{}
	for _, shop := range shops {
		pool, err := pgxpool.New(t.Context(), url+"&search_path=shop_"+shop)
		check.Must(t, err)
		t.Cleanup(pool.Close)
		check.AwaitTrue(t, pool, "SELECT NOT EXISTS (SELECT FROM outbox_queue) AND "+done)
		pools[shop] = pool
	}
	var exits []checker.Exit
	for _, p := range processes {
		asked := time.Now()
		check.Must(t, p.End(t.Context(), syscall.SIGTERM))
		exits = append(exits, checker.Exit{Name: program, Code: p.State().ExitCode(), Took: time.Since(asked)})
	}
	for shop, pool := range pools {
		e := checker.Evidence{Attempts: loads[shop].Ledger(), Tap: received(shop), Exits: exits, Began: began, Ended: time.Now()}
		check.Must(t, e.ReadOrders(t.Context(), pool))
		for _, m := range e.Tap {
			e.Recorded = append(e.Recorded, m.ID)
		}
		report := checker.CheckOutbox(e, allowed)
		t.Logf("shop %s: %d requests, %d acknowledged, %d events, %d repeats", shop, report.Attempted, report.Acknowledged, len(e.Events), report.Duplicated)
		for promise, violations := range report.Broken {
			t.Errorf("shop %s: %s is broken: %q", shop, promise, violations[:min(len(violations), 5)])
		}
	}
	return pools
}

func isReady(target string) bool {
	response, err := http.Get(target + "/ready")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
