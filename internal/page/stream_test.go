package page

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/test/servers"
)

// watch opens /events. The events are the data of each event; the channel is closed at the end.
func watch(t *testing.T, url string) (events <-chan []liveService, status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan []liveService, 100)
	t.Cleanup(func() { _ = response.Body.Close() })
	go func() {
		defer close(received)
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				var services []liveService
				if err := json.Unmarshal([]byte(data), &services); err != nil {
					t.Errorf("%s: %v", data, err)
				}
				received <- services
			}
		}
	}()
	return received, response.StatusCode
}

// next returns the next event, or fails if none comes.
func next(t *testing.T, events <-chan []liveService) []liveService {
	t.Helper()
	select {
	case services, open := <-events:
		if !open {
			t.Fatal("the stream has ended")
		}
		return services
	case <-time.After(30 * time.Second):
		t.Fatal("no event comes")
	}
	return nil
}

func TestNumbersAreSentAsTheyChange(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true, Peer: "notification-service"})
	var count atomic.Int64
	p.Numbers(func(context.Context) (Numbers, error) {
		return Numbers{Gates: []string{"the relay waits for the broker"}, Nodes: []Node{{Name: "waiting", Count: 1000 * count.Add(1), PerSecond: 1.25, OldestSeconds: 90, Level: Warn}}}, nil
	})
	events, _ := watch(t, serve(t, p))
	for _, want := range []string{"1,000", "2,000"} {
		services := next(t, events)
		if len(services) != 2 || services[0].Service != "order-service" || services[1].Service != "notification-service" {
			t.Fatalf("the services are %+v", services)
		}
		wantNode := liveNode{Name: "waiting", Count: want, Rate: "now 1.2/s", Oldest: "oldest 1 min 30 s", Level: Warn}
		if services[0].Nodes[0] != wantNode || services[0].Gates[0] != "the relay waits for the broker" {
			t.Errorf("got %+v, want %+v", services[0], wantNode)
		}
		if want := "no numbers from notification-service: PEER_OPS_URL is not set"; services[1].Error != want {
			t.Errorf("the peer: %q, want %q", services[1].Error, want)
		}
	}
}

func TestNothingIsCountedWhileNobodyWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var samples atomic.Int64
		s := newStreams(func(context.Context) Diagram {
			samples.Add(1)
			return Diagram{}
		})
		ctx, stop := context.WithCancel(t.Context())
		defer func() {
			stop()
			synctest.Wait()
		}()
		go s.run(ctx)
		time.Sleep(time.Minute)
		if n := samples.Load(); n != 0 {
			t.Fatalf("%d samples before somebody watches", n)
		}
		first, second := s.add(), s.add()
		time.Sleep(10*time.Second + time.Millisecond)
		if n := samples.Load(); n < 10 || n > 11 {
			t.Errorf("%d samples for two watchers in ten seconds, want one a second", n)
		}
		s.remove(first)
		s.remove(second)
		time.Sleep(2 * time.Second)
		before := samples.Load()
		time.Sleep(time.Minute)
		if n := samples.Load() - before; n != 0 {
			t.Errorf("%d samples after the last one left", n)
		}
		s.add()
		synctest.Wait()
		if samples.Load() == before {
			t.Error("nothing is counted for a new watcher")
		}
	})
}

func TestAServiceHasALimitOfStreams(t *testing.T) {
	t.Parallel()
	s := newStreams(nil)
	var last *stream
	for range maxStreams {
		if last = s.add(); last == nil {
			t.Fatal("a stream within the limit is refused")
		}
	}
	if s.add() != nil {
		t.Error("a stream beyond the limit is accepted")
	}
	s.remove(last)
	if s.add() == nil {
		t.Error("the place of a stream that has ended is not free")
	}

	p := newPage(t, Config{Demo: true})
	for range maxStreams {
		p.streams.add()
	}
	got := ask(t, "GET", serve(t, p)+"/events", "")
	got.want(t, http.StatusServiceUnavailable, "Too many")
	if n := testutil.ToFloat64(p.Metrics()); n != maxStreams {
		t.Errorf("the metric says %v browsers, want %d", n, maxStreams)
	}
}

func TestASlowBrowserGetsTheNewestNumbers(t *testing.T) {
	t.Parallel()
	s := newStreams(nil)
	slow := s.add()
	for _, event := range []string{"1", "2", "3"} {
		s.send([]byte(event)) // it never blocks
	}
	if got := string(<-slow.next); got != "3" {
		t.Errorf("it gets %s", got)
	}
}

func TestStreamsEndWhenTheProcessStops(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	server := httptest.NewServer(p)
	defer server.Close()
	events, _ := watch(t, server.URL)
	next(t, events)
	stop()
	for range events { // until the stream ends
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	ask(t, "GET", server.URL+"/events", "").want(t, http.StatusServiceUnavailable, "stopping")
}

// TestAStreamOutlivesTheTimeoutsOfTheServer needs 16 seconds: the server ends an ordinary answer
// after 15, and gives up reading after 10.
func TestAStreamOutlivesTheTimeoutsOfTheServer(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	address := servers.FreeAddress(t)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- httpserver.ServeDuring(ctx, "OPS_ADDR", address, p, p.Run) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for !reachable(address) && t.Context().Err() == nil {
		runtime.Gosched()
	}
	events, status := watch(t, "http://"+address)
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	for began := time.Now(); time.Since(began) < 16*time.Second; {
		next(t, events)
	}
}

func reachable(address string) bool {
	response, err := http.Get("http://" + address + "/numbers")
	if err == nil {
		_ = response.Body.Close()
	}
	return err == nil
}

// peerConfig makes the handler the peer of a page.
func peerConfig(t *testing.T, handler http.HandlerFunc) Config {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return Config{Service: "order-service", Peer: "notification-service", PeerOps: server.URL, Demo: true, PeerPage: "http://localhost:4101/"}
}

func TestThePeersNumbersAreShown(t *testing.T) {
	t.Parallel()
	peer := newPage(t, Config{Service: "notification-service"}) // its page is off
	peer.Numbers(func(context.Context) (Numbers, error) {
		return Numbers{Nodes: []Node{{Name: "dead", Label: "dead letters", Count: 1234567, Path: "/dead"}, {Name: "x", Path: "//example.com"}}}, nil
	})
	body := ask(t, "GET", serve(t, newPage(t, peerConfig(t, peer.ServeHTTP)))+"/", "").body
	for _, want := range []string{"1,234,567", `href="http://localhost:4101/dead"`, "notification-service"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %q:\n%s", want, body)
		}
	}
	if strings.Contains(body, "example.com") {
		t.Error("the peer's path leads elsewhere")
	}
	config := peerConfig(t, peer.ServeHTTP)
	config.PeerPage = ""
	if body := ask(t, "GET", serve(t, newPage(t, config))+"/", "").body; strings.Contains(body, `href="/dead"`) {
		t.Error("without PEER_PAGE_URL, the peer's path leads to this page")
	}
}

func TestWithoutThePeersNumbersThePageSaysWhy(t *testing.T) {
	t.Parallel()
	failing := newPage(t, Config{Service: "notification-service"})
	failing.Numbers(func(context.Context) (Numbers, error) {
		return Numbers{Gates: []string{"the page waits for the database"}}, context.DeadlineExceeded
	})
	write := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	for name, test := range map[string]struct {
		peer http.HandlerFunc
		want string
	}{
		"away":            {nil, "it does not answer at PEER_OPS_URL"},
		"slow":            {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "it does not answer at PEER_OPS_URL"},
		"not JSON":        {write("hello"), "cannot be read"},
		"endless":         {write(`{"service":"notification-service","more":"` + strings.Repeat("x", maxPeerBody) + `"}`), "cannot be read"},
		"another service": {write(`{"service":"shop"}`), "another service"},
		"too many nodes":  {write(`{"service":"notification-service","nodes":[` + strings.Repeat("{},", maxPeerNodes) + `{}]}`), "another service"},
		"elsewhere":       {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, "cannot be read"},
		"its database":    {failing.ServeHTTP, "the database does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := peerConfig(t, test.peer)
			if test.peer == nil {
				config.PeerOps = "http://" + servers.FreeAddress(t)
			}
			got := ask(t, "GET", serve(t, newPage(t, config))+"/", "")
			got.want(t, http.StatusOK, "no numbers from notification-service: ")
			got.want(t, http.StatusOK, test.want)
			if name == "its database" {
				got.want(t, http.StatusOK, "waits for the database")
			}
		})
	}
}

func TestTheOverviewAnswersWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	p.Numbers(func(ctx context.Context) (Numbers, error) {
		<-ctx.Done()
		return Numbers{Gates: []string{"the relay waits for a session with the broker"}}, ctx.Err()
	})
	got := ask(t, "GET", serve(t, p)+"/", "")
	got.want(t, http.StatusOK, "no numbers: the database does not answer")
	got.want(t, http.StatusOK, "the relay waits for a session with the broker")
}

func TestManyAskersAreOneQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		o := once[int64]{timeout: time.Second, ask: func(ctx context.Context) (int64, error) {
			time.Sleep(100 * time.Millisecond)
			return asked.Add(1), ctx.Err()
		}}
		first, cancel := context.WithCancel(t.Context())
		go func() { _, _ = o.get(first) }()
		synctest.Wait()
		cancel() // the others still get the answer
		for range 50 {
			go func() {
				if n, err := o.get(t.Context()); n != 1 || err != nil {
					t.Errorf("got %d, error %v", n, err)
				}
			}()
		}
		time.Sleep(500 * time.Millisecond)
		if n, err := o.get(t.Context()); n != 1 || err != nil {
			t.Errorf("half a second later: %d, error %v", n, err)
		}
		time.Sleep(time.Second)
		if n, err := o.get(t.Context()); n != 2 || err != nil {
			t.Errorf("later: %d, error %v", n, err)
		}
		failed := errors.New("away")
		o.ask = func(context.Context) (int64, error) { asked.Add(1); return 0, failed }
		time.Sleep(time.Second)
		for range 3 {
			if _, err := o.get(t.Context()); !errors.Is(err, failed) {
				t.Errorf("error %v", err)
			}
		}
		if asked.Load() != 3 {
			t.Errorf("it was asked %d times, want 3: an error is kept as well", asked.Load())
		}
	})
}

func TestARateIsTheDifferenceOfTwoSamples(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	var r Rate
	for _, step := range []struct {
		after time.Duration
		total int64
		want  float64
	}{
		{0, 100, Unknown},
		{2 * time.Second, 150, 25},
		{2100 * time.Millisecond, 160, 25}, // too early for a new one
		{4 * time.Second, 150, 0},
		{5 * time.Second, 10, Unknown}, // another table
		{2 * time.Minute, 10, Unknown}, // too long ago
	} {
		if got := r.PerSecond(step.total, at.Add(step.after)); got != step.want {
			t.Errorf("after %s: %v, want %v", step.after, got, step.want)
		}
	}
}
