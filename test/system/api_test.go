package system

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// address waits for the API and returns its URL.
func (s *service) address() string {
	s.Helper()
	return fmt.Sprintf("http://%s", s.awaitLog("taking orders")["address"])
}

const orderBody = `{"product_id":"sku123","quantity":1}`

// place places an order and returns its id. After an error it is unknown whether the order
// was placed.
func place(ctx context.Context, address string) (string, error) {
	body, err := call(ctx, http.MethodPost, address+"/orders", orderBody, http.StatusCreated)
	if err != nil {
		return "", err
	}
	var answer struct{ Order struct{ ID string } }
	err = json.Unmarshal(body, &answer)
	return answer.Order.ID, err
}

// call sends a request and returns the answer. Another status than the wanted one is an
// error.
func call(ctx context.Context, method, url, body string, want int) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != want {
		err = fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(answer))
	}
	return answer, err
}

func (s *system) place(orders *service) string {
	s.Helper()
	id, err := place(s.Context(), orders.address())
	must(s.T, err)
	return id
}

// placeWithEmail places an order of a customer with this address.
func (s *system) placeWithEmail(orders *service, email string) {
	s.Helper()
	body := fmt.Sprintf(`{"product_id":"sku123","quantity":1,"customer_email":%q}`, email)
	_, err := call(s.Context(), http.MethodPost, orders.address()+"/orders", body, http.StatusCreated)
	must(s.T, err)
}

func (s *system) confirmOrder(orders *service, id string) {
	s.Helper()
	_, err := call(s.Context(), http.MethodPost, orders.address()+"/orders/"+id+"/confirm", "", http.StatusOK)
	must(s.T, err)
}

// awaitPlaced tries until an order is placed.
func (s *system) awaitPlaced(address string) {
	s.Helper()
	var err error
	if !eventually(awaitTimeout, func() bool { _, err = place(s.Context(), address); return err == nil }) {
		s.Fatal(err)
	}
}

// awaitAPIClosed waits until the API accepts no more connections.
func (s *system) awaitAPIClosed(orders *service) {
	s.Helper()
	address := strings.TrimPrefix(orders.address(), "http://")
	if !poll(10*time.Millisecond, awaitTimeout, func() bool {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}) {
		s.Fatal("the API still accepts connections")
	}
}
