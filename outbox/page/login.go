package page

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Limits on wrong passwords. With these nobody can guess a password, and bcrypt takes little time.
const (
	failureWindow     = time.Minute
	failuresPerClient = 5
	maxClients        = 10_000 // are remembered
)

// login checks names and passwords. What was right once is remembered by a keyed hash, because
// bcrypt takes a tenth of a second and a browser sends the password with each request.
type login struct {
	key  []byte        // of this process
	turn chan struct{} // one password is checked at a time

	mu      *sync.Mutex
	clients map[string]*client
	good    map[[sha256.Size]byte]struct{}
}

// client is an address with wrong passwords in the last minute, or with one that is being checked.
type client struct {
	turn  chan struct{} // so nobody gets past the limit with many requests at once
	wrong []time.Time   // the last ones
}

func newLogin() login {
	return login{
		key: []byte(rand.Text()), turn: make(chan struct{}, 1), mu: &sync.Mutex{},
		clients: map[string]*client{}, good: map[[sha256.Size]byte]struct{}{},
	}
}

// The results of a login.
const (
	known   = "known" // the password was right before
	right   = "login"
	wrong   = "wrong_password"
	limited = "too_many_wrong_passwords"
)

// check returns the result, and how long a client must wait that is limited.
func (l *login) check(ctx context.Context, address string, users map[string]string, name, password string) (result string, wait time.Duration) {
	hash, exists := users[name]
	if !exists { // it takes as long as for a user who exists
		for _, hash = range users {
			break
		}
	}
	mac := hmac.New(sha256.New, l.key)
	fmt.Fprintf(mac, "%q %q %q", name, password, hash)
	fingerprint := [sha256.Size]byte(mac.Sum(nil))
	l.mu.Lock()
	_, before := l.good[fingerprint]
	l.mu.Unlock()
	if before && exists { // a name that is gone has the hash of another one here
		return known, 0
	}
	c := l.client(address)
	for _, turn := range []chan struct{}{c.turn, l.turn} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return limited, time.Second
		}
		if wait := c.wait(); wait > 0 {
			return limited, wait
		}
	}
	if bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) != nil || !exists {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.wrong = append(c.wrong[max(0, len(c.wrong)+1-failuresPerClient):], time.Now())
		l.clients[address] = c // it may have been forgotten
		return wrong, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.good) >= maxClients {
		clear(l.good) // passwords were changed very often
	}
	l.good[fingerprint] = struct{}{}
	return right, 0
}

// client returns what is known about an address. It forgets those without a wrong password.
func (l *login) client(address string) *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clients[address]
	if c == nil {
		if len(l.clients) >= maxClients {
			for old, c := range l.clients {
				if c.wait() == 0 && len(c.turn) == 0 || len(l.clients) >= 2*maxClients {
					delete(l.clients, old)
				}
			}
		}
		c = &client{turn: make(chan struct{}, 1)}
		l.clients[address] = c
	}
	return c
}

// wait returns how long the client must wait.
func (c *client) wait() time.Duration {
	if len(c.wrong) < failuresPerClient {
		return 0
	}
	return max(0, failureWindow-time.Since(c.wrong[0]))
}

type userKey struct{}

func userOf(r *http.Request) string {
	user, _ := r.Context().Value(userKey{}).(string)
	return user
}

func (p *Page) isOperator(user string) bool { return slices.Contains(p.Operators, user) }

// authenticated finds out which user sends a request, and calls next.
func (p *Page) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, ok := p.user(w, r); ok {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
		}
	})
}

// user returns the user, or answers the request.
func (p *Page) user(w http.ResponseWriter, r *http.Request) (string, bool) {
	if p.Users == nil {
		// Another site could make a browser reach the page by a name of its own that resolves to
		// 127.0.0.1 (DNS rebinding).
		if !isLoopback(r.Host) {
			http.Error(w, "Without users, this page answers only at localhost, 127.0.0.1 and [::1].", http.StatusForbidden)
			return "", false
		}
		return Anonymous, true
	}
	users, err := p.Users()
	if err != nil {
		p.Logger.ErrorContext(r.Context(), "the users of the operators' page cannot be read", "error", err)
		http.Error(w, "The users of this page cannot be read. The log says why.", http.StatusServiceUnavailable)
		return "", false
	}
	name, password, given := r.BasicAuth()
	if given {
		ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
		defer cancel()
		result, wait := p.login.check(ctx, p.client(r), users, name, password)
		if result != known {
			p.note(r, result, map[bool]string{true: name}[result == right]) // a wrong name may be a password
		}
		switch result {
		case known, right:
			return name, true
		case limited:
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			http.Error(w, "There were too many wrong passwords from your address, or too many at once. Wait a minute.", http.StatusTooManyRequests)
			return "", false
		}
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="`+strings.ReplaceAll(p.Name, `"`, "")+`", charset="UTF-8"`)
	http.Error(w, "This page needs the name and the password of one of its users.", http.StatusUnauthorized)
	return "", false
}

// isLoopback reports whether the Host header names this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, strings.ToLower(strings.Trim(host, "[]")))
}

// client returns the address of the client. Each proxy appends whom it has seen to the header, so
// the last address that is not a proxy's is the client's; what is before it, anybody may write.
// An IPv6 /64 is one client, because one machine has all its addresses.
func (p *Page) client(r *http.Request) string {
	address := addressOf(r.RemoteAddr)
	seen := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, before := range slices.Backward(seen) {
		next := addressOf(strings.TrimSpace(before))
		if !next.IsValid() || !slices.ContainsFunc(p.Proxies, func(proxy netip.Prefix) bool { return proxy.Contains(address) }) {
			break
		}
		address = next
	}
	if prefix, err := address.Prefix(64); err == nil && address.Is6() {
		return prefix.String()
	}
	return address.String()
}

// addressOf reads an address with or without a port.
func addressOf(text string) netip.Addr {
	if address, err := netip.ParseAddrPort(text); err == nil {
		return address.Addr().Unmap().WithZone("")
	}
	address, _ := netip.ParseAddr(text)
	return address.Unmap().WithZone("")
}
