package page

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
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
func watch(t *testing.T, url string, changes ...with) (events <-chan liveNumbers, status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	for _, change := range changes {
		change(request)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan liveNumbers, 100)
	t.Cleanup(func() { _ = response.Body.Close() })
	go func() {
		defer close(received)
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				var numbers liveNumbers
				if err := json.Unmarshal([]byte(data), &numbers); err != nil {
					t.Errorf("%s: %v", data, err)
				}
				received <- numbers
			}
		}
	}()
	return received, response.StatusCode
}

// next returns the next event, or fails if none comes.
func next(t *testing.T, events <-chan liveNumbers) liveNumbers {
	t.Helper()
	select {
	case numbers, open := <-events:
		if !open {
			t.Fatal("the stream has ended")
		}
		return numbers
	case <-time.After(2 * time.Minute):
		t.Fatal("no event comes")
	}
	return liveNumbers{}
}

func TestNumbersAreSentAsTheyChange(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	var count atomic.Int64
	p.Numbers(func(context.Context) (Numbers, error) {
		return Numbers{Gates: []string{"the relay waits for the broker"}, Nodes: []Node{{Name: "waiting", Count: 1000 * count.Add(1), PerSecond: 1.25, OldestSeconds: 90, Level: Warn}}}, nil
	})
	events, _ := watch(t, serve(t, p))
	for _, want := range []string{"1,000", "2,000"} {
		got := next(t, events)
		wantNode := liveNode{Name: "waiting", Count: want, Rate: "now 1.2/s", Oldest: "oldest 1 min 30 s", Level: Warn}
		if got.Nodes[0] != wantNode || got.Gates[0] != "the relay waits for the broker" {
			t.Errorf("got %+v, want %+v", got, wantNode)
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
		first, second := s.add("ann"), s.add("bob")
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
		s.add("ann")
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
	for i := range maxStreams {
		if last = s.add(fmt.Sprint("user ", i)); last == nil {
			t.Fatal("a stream within the limit is refused")
		}
	}
	if s.add("ann") != nil {
		t.Error("a stream beyond the limit is accepted")
	}
	s.remove(last)
	if s.add("ann") == nil {
		t.Error("the place of a stream that has ended is not free")
	}

	p := newPage(t, Config{Demo: true})
	for i := range maxStreams {
		p.streams.add(fmt.Sprint("user ", i))
	}
	got := ask(t, "GET", serve(t, p)+"/events", "")
	got.want(t, http.StatusServiceUnavailable, "Too many")
	if n := testutil.ToFloat64(p.Metrics()); n != maxStreams {
		t.Errorf("the metric says %v browsers, want %d", n, maxStreams)
	}
}

func TestOneUserLeavesStreamsForOthers(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Users: account(t, "ann", "read") + account(t, "bob", "read")})
	for range maxUserStreams {
		if p.streams.add("ann") == nil {
			t.Fatal("a stream within the limit is refused")
		}
	}
	url := serve(t, p)
	ask(t, "GET", url+"/events", "", as("ann", testPassword)).want(t, http.StatusServiceUnavailable, "Too many")
	if _, status := watch(t, url, as("bob", testPassword)); status != http.StatusOK {
		t.Errorf("the status of another user is %d", status)
	}
}

// TestAStreamEndsAfterItsTime, and the browser logs in again.
func TestAStreamEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t, Config{Demo: true})
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = p.Run(ctx) }()
		closed, closeTab := context.WithTimeout(ctx, maxStreamTime+time.Minute)
		defer closeTab()
		request := httptest.NewRequestWithContext(closed, http.MethodGet, "http://localhost/events", nil)
		began, received := time.Now(), httptest.NewRecorder()
		p.ServeHTTP(received, request)
		if got := time.Since(began); got != maxStreamTime {
			t.Errorf("it ended after %s, want %s", got, maxStreamTime)
		}
		if n := strings.Count(received.Body.String(), "event: numbers"); n < 590 || n > 600 {
			t.Errorf("it had %d events, want one for each second", n)
		}
		if n := p.streams.count(); n != 0 {
			t.Errorf("%d streams are open", n)
		}
		stop()
		synctest.Wait()
	})
}

// TestAPanicOfTheNumbersEndsNothing: the next second is counted again.
func TestAPanicOfTheNumbersEndsNothing(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	var asked atomic.Int64
	p.Numbers(func(context.Context) (Numbers, error) {
		if asked.Add(1) == 1 {
			panic("a bug")
		}
		return Numbers{Nodes: []Node{{Name: "waiting"}}}, nil
	})
	events, _ := watch(t, serve(t, p))
	if first := next(t, events); first.Error != "no numbers: the log says why" || len(first.Nodes) > 0 {
		t.Errorf("with the panic: %+v", first)
	}
	if second := next(t, events); second.Error != "" || len(second.Nodes) != 1 {
		t.Errorf("after it: %+v", second)
	}
}

// TestAPanicOfASampleEndsNoStream.
func TestAPanicOfASampleEndsNoStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		samples := 0
		s := newStreams(func(context.Context) Diagram {
			if samples++; samples == 1 {
				panic("a bug")
			}
			return Diagram{}
		})
		ctx, stop := context.WithCancel(t.Context())
		go s.run(ctx)
		<-s.add("ann").next
		if samples != 2 {
			t.Errorf("%d samples, want 2", samples)
		}
		stop()
		synctest.Wait()
	})
}

func TestASlowBrowserGetsTheNewestNumbers(t *testing.T) {
	t.Parallel()
	s := newStreams(nil)
	slow := s.add("ann")
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
	response, err := http.Get("http://" + address + "/")
	if err == nil {
		_ = response.Body.Close()
	}
	return err == nil
}
