package page

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/bcrypt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testPassword = "a long password"

// account is a line of PAGE_USERS, with a hash that is quick to check.
func account(t *testing.T, name, role string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(testPassword), 10)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s:%s:%s\n", name, role, hash)
}

// newPage returns a page that runs until the end of the test.
func newPage(t *testing.T, c Config) *Page {
	t.Helper()
	if c.Service == "" {
		c.Service = "order-service"
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	p.Numbers(func(context.Context) (Numbers, error) { return Numbers{}, nil })
	return p
}

// serve runs the page, and serves it until the end of the test.
func serve(t *testing.T, p *Page) (url string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		server.Close()
	})
	for p.decisions.stopped() { // until Run has begun
		runtime.Gosched()
	}
	return server.URL
}

// stopped reports whether decisions are refused, because Run has not begun or has ended.
func (d *decisions) stopped() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx == nil || d.ctx.Err() != nil
}

// answer is what a test sees of an answer.
type answer struct {
	status int
	header http.Header
	body   string
}

// with changes a request.
type with func(*http.Request)

func header(name, value string) with { return func(r *http.Request) { r.Header.Set(name, value) } }
func host(name string) with          { return func(r *http.Request) { r.Host = name } }
func as(name, password string) with {
	return func(r *http.Request) { r.SetBasicAuth(name, password) }
}

// ask sends a request and does not follow a redirect.
func ask(t *testing.T, method, url, form string, changes ...with) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	if form != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, change := range changes {
		change(request)
	}
	client := http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func (a answer) want(t *testing.T, status int, text string) {
	t.Helper()
	if a.status != status || !strings.Contains(a.body, text) {
		t.Errorf("status %d, want %d with %q:\n%s", a.status, status, text, a.body)
	}
}

// hello is a handler that shows a text.
func hello(context.Context, *Request) (Result, error) {
	return Show("Hello", Message{Title: "hello"}), nil
}
