package page

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/test/servers"
)

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
