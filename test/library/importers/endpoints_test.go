package importers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/process"
	"example.com/transactional-outbox/test/env/servers"
)

// endpoints are fifty webhooks. While bad is set, the first half of them are slow, fail, are gone, hang
// or refuse connections.
type endpoints struct {
	bad     atomic.Bool
	release chan struct{} // what hangs

	mu       sync.Mutex
	accepted map[string]time.Time        // when each order was
	received [fifty]map[string]time.Time // when each webhook first got each order
}

const fifty = 50

func (e *endpoints) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var order struct{ ID string }
	var i int
	_, err := fmt.Sscanf(r.URL.Path, "/%d", &i)
	if body, _ := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &order) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if e.bad.Load() && i < fifty/2 {
		switch i % 5 {
		case 0:
			select {
			case <-e.release:
			case <-time.After(5 * time.Second):
			}
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
			return
		case 2:
			w.WriteHeader(http.StatusGone)
			return
		default:
			select {
			case <-e.release:
			case <-r.Context().Done():
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.received[i][order.ID]; !ok {
		e.received[i][order.ID] = time.Now()
	}
}

// latencies are those of the good webhooks for these orders, in ascending order.
func (e *endpoints) latencies(orders []string) (all []time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range orders {
		for _, received := range e.received[fifty/2:] {
			if at, ok := received[id]; ok {
				all = append(all, at.Sub(e.accepted[id]))
			}
		}
	}
	slices.Sort(all)
	return all
}

// TestP4BadWebhooksHoldUpNoOther, of a real process. The good ones get everything while the bad ones
// are bad; those get it later.
func TestP4BadWebhooksHoldUpNoOther(t *testing.T) {
	t.Parallel()
	e := &endpoints{release: make(chan struct{}), accepted: map[string]time.Time{}}
	refusing := servers.FreeAddress(t)
	serve := func(address string) *httptest.Server {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		check.Must(t, err)
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: e}}
		server.Start()
		t.Cleanup(server.Close)
		return server
	}
	all, some := serve("127.0.0.1:0"), serve(refusing)
	var urls []string
	for i := range fifty {
		e.received[i] = map[string]time.Time{}
		server := all
		if i < fifty/2 && i%5 == 4 {
			server = some
		}
		urls = append(urls, fmt.Sprintf("%d=%s/%[1]d", i, server.URL))
	}
	url, address, binary := servers.Database(t), servers.FreeAddress(t), filepath.Join(t.TempDir(), "webhook")
	check.Run(t, exec.CommandContext(t.Context(), "go", "build", "-C", "../../..", "-o", binary, "./examples/webhook"))
	command := exec.Command(binary)
	command.Env = []string{"DATABASE_URL=" + url, "ADDR=" + address, "WEBHOOKS_A=" + strings.Join(urls, " ")}
	p, err := process.Start(command, process.WithParent, filepath.Join(t.TempDir(), "log"))
	check.Must(t, err)
	check.Await(t, "a process that is ready", func() bool { return isReady("http://"+address) || !p.Alive() })

	order := func(n int) (ids []string) {
		for range n {
			response, err := http.Post("http://"+address+"/a/orders", "application/json", strings.NewReader(`{"product_id":"p","quantity":1,"customer_email":"a@b.c"}`))
			check.Must(t, err)
			var answer struct{ Order struct{ ID string } }
			check.Must(t, json.NewDecoder(response.Body).Decode(&answer))
			check.Must(t, response.Body.Close())
			e.mu.Lock()
			e.accepted[answer.Order.ID] = time.Now()
			e.mu.Unlock()
			ids = append(ids, answer.Order.ID)
			time.Sleep(100 * time.Millisecond) // the load: ten orders, so five hundred events, in a second
		}
		check.Await(t, "the good webhooks get all", func() bool { return len(e.latencies(ids)) == n*fifty/2 })
		return ids
	}
	before := e.latencies(order(30))
	e.bad.Store(true)
	some.Close() // it refuses connections
	beside := e.latencies(order(100))
	t.Logf("the median is %s, and beside bad webhooks %s; the longest %s, and %s", before[len(before)/2], beside[len(beside)/2], before[len(before)-1], beside[len(beside)-1])
	e.bad.Store(false)
	close(e.release)
	serve(refusing)
	pool, err := pgxpool.New(t.Context(), url+"&search_path=shop_a")
	check.Must(t, err)
	t.Cleanup(pool.Close)
	check.AwaitTrue(t, pool, "SELECT NOT EXISTS (SELECT FROM outbox_queue)")
	check.Must(t, p.End(t.Context(), syscall.SIGTERM))
	for i, received := range e.received {
		if len(received) != 130 {
			t.Errorf("webhook %d has got %d of 130 orders", i, len(received))
		}
	}
}
