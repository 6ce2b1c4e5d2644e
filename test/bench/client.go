package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const oneMug = `{"product_id":"sku123","quantity":1}`

// placeOrder is a complete HTTP request.
var placeOrder = fmt.Appendf(nil,
	"POST /orders HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(oneMug), oneMug)

// client is one connection to the API. It does not use net/http's client: client and service share
// the cores, so the client's CPU time would reduce the service's rate.
type client struct {
	conn   net.Conn
	reader *bufio.Reader
}

// dialAll opens the connections of all clients.
func dialAll(ctx context.Context, address string) (clients []client, closeAll func(), err error) {
	closeAll = func() {
		for _, c := range clients {
			_ = c.conn.Close()
		}
	}
	for range connections {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		clients = append(clients, client{conn, bufio.NewReader(conn)})
	}
	return clients, closeAll, nil
}

// requestTimeout is for one request.
const requestTimeout = 10 * time.Second

// place places an order.
func (c client) place(context.Context) error {
	if err := c.conn.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(placeOrder); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("POST /orders: %s: %s", response.Status, body)
	}
	return err
}
