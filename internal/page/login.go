package page

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"example.com/transactional-outbox/internal/page/users"
)

// login checks names and passwords. A password that was right once is remembered by a keyed hash,
// because bcrypt takes a tenth of a second and a browser sends the password with each request.
type login struct {
	verifier *users.Verifier
	failures failures
	key      []byte        // of this process
	turn     chan struct{} // one password is checked at a time, so nobody gets past the limits

	mu   sync.Mutex
	good map[[sha256.Size]byte]User // at most one entry for each user
}

func newLogin(verifier *users.Verifier) *login {
	return &login{
		verifier: verifier, failures: failures{now: time.Now}, key: []byte(rand.Text()),
		turn: make(chan struct{}, 1), good: map[[sha256.Size]byte]User{},
	}
}

// check returns the user, or how long the client must wait before it may try again.
func (l *login) check(ctx context.Context, client, name, password string) (user User, ok bool, wait time.Duration) {
	fingerprint := l.fingerprint(name, password)
	if user, ok := l.remembered(fingerprint); ok {
		return user, true, 0
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return User{}, false, time.Second
	}
	if wait := l.failures.wait(client); wait > 0 {
		return User{}, false, wait
	}
	user, ok = l.verifier.Verify(name, password)
	if !ok {
		l.failures.add(client)
		return User{}, false, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.good[fingerprint] = user
	return user, true, 0
}

func (l *login) remembered(fingerprint [sha256.Size]byte) (User, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	user, ok := l.good[fingerprint]
	return user, ok
}

// fingerprint is a hash that nobody can compute without this process's key. The length of the name
// keeps "a"+"bc" and "ab"+"c" apart.
func (l *login) fingerprint(name, password string) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, l.key)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(name))))
	mac.Write([]byte(name + password))
	mac.Sum(sum[:0])
	return sum
}

// Limits on failed logins. With these nobody can guess a password, and bcrypt takes little time.
const (
	failureWindow     = time.Minute
	failuresPerClient = 5
	failuresInAll     = 20
)

// failures are the failed logins of the last minute: at most failuresInAll.
type failures struct {
	now  func() time.Time
	mu   sync.Mutex
	list []failure // oldest first
}

type failure struct {
	client string
	at     time.Time
}

// wait returns how long a client must wait, or 0.
func (f *failures) wait(client string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for len(f.list) > 0 && now.Sub(f.list[0].at) >= failureWindow {
		f.list = f.list[1:]
	}
	var own []failure
	for _, failed := range f.list {
		if failed.client == client {
			own = append(own, failed)
		}
	}
	switch {
	case len(own) >= failuresPerClient:
		return own[0].at.Add(failureWindow).Sub(now)
	case len(f.list) >= failuresInAll:
		return f.list[0].at.Add(failureWindow).Sub(now)
	default:
		return 0
	}
}

func (f *failures) add(client string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, failure{client, f.now()})
}

type userKey struct{}

// demoUser is who uses the page of the demo. It has no login.
var demoUser = User{Name: "demo", Role: Operate}

// authenticated finds out which user sends a request, and calls next.
func (p *Page) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, ok := demoUser, true
		if p.login != nil {
			user, ok = p.authenticate(w, r)
		}
		if ok {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
		}
	})
}

// authenticate returns the user, or answers the request.
func (p *Page) authenticate(w http.ResponseWriter, r *http.Request) (User, bool) {
	name, password, given := r.BasicAuth()
	if given {
		client := clientOf(r)
		user, ok, wait := p.login.check(r.Context(), client, name, password)
		if ok {
			return user, true
		}
		if wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			http.Error(w, "There were too many wrong passwords. Wait a minute.", http.StatusTooManyRequests)
			return User{}, false
		}
		slog.WarnContext(r.Context(), "a login failed", "client", client)
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="`+p.config.Service+`", charset="UTF-8"`)
	http.Error(w, "This page needs the name and the password of a user in PAGE_USERS.", http.StatusUnauthorized)
	return User{}, false
}
