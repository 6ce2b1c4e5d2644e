package system

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// httpClient keeps the connections of many clients.
var httpClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}

const orderBody = `{"product_id":"sku123","quantity":1}`

// place places an order and returns its id. After an error it is unknown whether the order
// was placed.
func place(ctx context.Context, address string) (id string, err error) {
	status, body, err := call(ctx, address+"/orders", orderBody)
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("%d: %s", status, body)
	}
	if err != nil {
		return "", err
	}
	return idIn(body)
}

func idIn(body []byte) (id string, err error) {
	var answer struct{ Order struct{ ID string } }
	err = json.Unmarshal(body, &answer)
	return answer.Order.ID, err
}

// call sends a POST with headers "name: value", and returns the answer.
func call(ctx context.Context, url, body string, headers ...string) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, bytes.TrimSpace(answer), err
}

func (s *system) place(orders *service) string {
	s.Helper()
	id, err := place(s.Context(), orders.address())
	must(s.T, err)
	return id
}

// awaitPlaced tries until an order is placed.
func (s *system) awaitPlaced(address string) {
	s.Helper()
	var err error
	if !eventually(func() bool { _, err = place(s.Context(), address); return err == nil }) {
		s.Fatal(err)
	}
}

// load places orders from several clients until stop, and records the answers.
type load struct {
	clients sync.WaitGroup
	cancel  context.CancelFunc
	address atomic.Pointer[string]

	mu       sync.Mutex
	placed   []string    // the orders that were answered with 201
	statuses map[int]int // 0: no answer, so it is unknown whether the order was placed
}

func (s *system) startLoad(clients int, orders *service) *load {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context()) // ends the load but interrupts no request
	l := &load{cancel: cancel, statuses: map[int]int{}}
	l.sendTo(orders)
	for range clients {
		l.clients.Go(func() {
			for ctx.Err() == nil {
				status, body, err := call(s.Context(), *l.address.Load()+"/orders", orderBody)
				if err != nil {
					status = 0
				}
				l.record(status, body)
			}
		})
	}
	s.Cleanup(l.stop)
	return l
}

func (l *load) record(status int, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statuses[status]++
	if status == http.StatusCreated {
		id, _ := idIn(body)
		l.placed = append(l.placed, id)
	}
}

// sendTo directs the clients to another process.
func (l *load) sendTo(orders *service) {
	address := orders.address()
	l.address.Store(&address)
}

// awaitMore waits for n more orders.
func (s *system) awaitMore(l *load, n int) {
	s.Helper()
	target := l.count() + n
	if !eventually(func() bool { return l.count() >= target }) {
		s.Fatalf("%d orders are placed, want %d", l.count(), target)
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.placed)
}

func (l *load) stop() {
	l.cancel()
	l.clients.Wait()
}
