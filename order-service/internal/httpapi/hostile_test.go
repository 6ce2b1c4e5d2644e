package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/transactional-outbox/internal/httpserver"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/order-service/internal/httpapi"
)

// TestMalformedHTTPIsAClientError sends requests that no client library would send.
func TestMalformedHTTPIsAClientError(t *testing.T) {
	t.Parallel()
	db, _ := postgrestest.Migrated(t, schema)
	address := serve(t, newAPI(db, httpapi.Limits{InFlight: 256}, prometheus.NewRegistry()))
	const (
		host  = "Host: api\r\n"
		post  = "POST /orders HTTP/1.1\r\n" + host + "Content-Type: application/json\r\n"
		empty = "\r\n"
	)
	for name, test := range map[string]struct {
		request string
		status  int
	}{
		"a path of 20 KiB":            {"GET /orders/" + strings.Repeat("9", 20<<10) + " HTTP/1.1\r\n" + host + empty, http.StatusRequestHeaderFieldsTooLarge},
		"a header of 20 KiB":          {"GET /products HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", 20<<10) + "\r\n" + empty, http.StatusRequestHeaderFieldsTooLarge},
		"thousands of headers":        {"GET /products HTTP/1.1\r\n" + host + strings.Repeat("X: x\r\n", 5000) + empty, http.StatusRequestHeaderFieldsTooLarge},
		"a path of 10 KiB":            {"GET /" + strings.Repeat("a/", 5<<10) + " HTTP/1.1\r\n" + host + empty, http.StatusNotFound},
		"no host":                     {"GET /products HTTP/1.1\r\n" + empty, http.StatusBadRequest},
		"no HTTP":                     {"hello\r\n\r\n", http.StatusBadRequest},
		"TLS":                         {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", http.StatusBadRequest},
		"a method that is none":       {"G@T /products HTTP/1.1\r\n" + host + empty, http.StatusBadRequest},
		"a path with a space":         {"GET /a b HTTP/1.1\r\n" + host + empty, http.StatusBadRequest},
		"a path with a bad escape":    {"GET /%zz HTTP/1.1\r\n" + host + empty, http.StatusBadRequest},
		"a path with NUL":             {"GET /orders/\x00 HTTP/1.1\r\n" + host + empty, http.StatusBadRequest},
		"a header with NUL":           {"GET /products HTTP/1.1\r\n" + host + "X: \x00\r\n" + empty, http.StatusBadRequest},
		"a folded header":             {"GET /products HTTP/1.1\r\n" + host + "X : y\r\n" + empty, http.StatusBadRequest},
		"a path that is a star":       {"GET * HTTP/1.1\r\n" + host + empty, http.StatusNotFound},
		"another server's path":       {"GET http://elsewhere/nothing HTTP/1.1\r\n" + host + empty, http.StatusNotFound},
		"a tunnel":                    {"CONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\n" + empty, http.StatusNotFound},
		"a negative length":           {post + "Content-Length: -1\r\n" + empty, http.StatusBadRequest},
		"two lengths":                 {post + "Content-Length: 1\r\nContent-Length: 2\r\n" + empty + "{}", http.StatusBadRequest},
		"a length beyond the body":    {post + "Content-Length: 99\r\n" + empty + oneMug, http.StatusBadRequest},
		"a length beyond 64 bits":     {post + "Content-Length: 99999999999999999999\r\n" + empty + oneMug, http.StatusBadRequest},
		"a chunk that is none":        {post + "Transfer-Encoding: chunked\r\n" + empty + "xyz\r\n", http.StatusBadRequest},
		"an endless chunk":            {post + "Transfer-Encoding: chunked\r\n" + empty + "ffffffffffffffff\r\n" + strings.Repeat(" ", maxBody+1), http.StatusRequestEntityTooLarge},
		"an unknown expectation":      {post + "Expect: the-unexpected\r\n" + empty, http.StatusExpectationFailed},
		"an order with half a header": {post + "Idempotency-Key\r\n" + empty, http.StatusBadRequest},
		// The server answers these before the API gets them (RFC 9112, 6.1; RFC 9110, 15.6.6).
		"an unknown transfer coding": {post + "Transfer-Encoding: gzip, chunked\r\n" + empty, http.StatusNotImplemented},
		"HTTP of the future":         {"GET /products HTTP/9.9\r\n" + host + empty, http.StatusHTTPVersionNotSupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sendRaw(t, address, test.request)
			if got.status != test.status {
				t.Errorf("got %d, want %d: %s", got.status, test.status, got.body)
			}
			if i := slices.IndexFunc(internals, func(word string) bool { return strings.Contains(got.body, word) }); i >= 0 {
				t.Errorf("the body contains %q: %s", internals[i], got.body)
			}
		})
	}
}

// serve serves the API like the service, until the test ends. It returns the address.
func serve(t *testing.T, api http.Handler) string {
	t.Helper()
	listener, err := httpserver.Listen(t.Context(), "HTTP_ADDR", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- httpserver.Serve(ctx, listener, api) }()
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// sendRaw sends a request and then closes its side of the connection.
func sendRaw(t *testing.T, address, request string) reply {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprint(conn, request); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	return readReply(t, bufio.NewReader(conn))
}

func readReply(t *testing.T, from *bufio.Reader) reply {
	t.Helper()
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(body)}
}
