package page_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"example.com/transactional-outbox/outbox/page"
)

// TestWithoutUsersThePageIsForThisMachineAndOnlyShows because anybody who reaches it may use it.
func TestWithoutUsersThePageIsForThisMachineAndOnlyShows(t *testing.T) {
	t.Parallel()
	s := newSite(t, page.Config{})
	id := s.failed(1, "order.created", "refused")[0].String()
	for host, status := range map[string]int{
		"localhost:4100": 200, "127.0.0.1": 200, "[::1]:4100": 200, "LOCALHOST": 200, "evil.example:4100": 403, "127.0.0.1.evil.example": 403, "": 200,
	} {
		s.send("", http.MethodGet, "", nil, "Host", host).want(status)
	}
	for _, path := range []string{"decide?action=replay&id=" + id, "event?payload=1&id=" + id} {
		s.get("", path).want(http.StatusForbidden, "anonymous may")
	}
	s.get("", "list").wantNot("decide?")
	for name, want := range map[string]string{"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if got := s.get("", "").Header.Get(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q", name, got)
		}
	}
	s.get("", "style.css").want(http.StatusOK, "prefers-color-scheme")
}

// TestWrongPasswordsLockOutTheirClientAndNobodyElse: the address behind a known proxy counts, and
// whoever was right before goes on.
func TestWrongPasswordsLockOutTheirClientAndNobodyElse(t *testing.T) {
	t.Parallel()
	c := withUsers()
	c.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
	s := newSite(t, c)
	from := func(user, forwarded string) answer {
		return s.send(user, http.MethodGet, "style.css", nil, "X-Forwarded-For", forwarded)
	}
	const attacker = "1.2.3.4, 2001:db8::1, 10.9.9.9" // the first one is written by the attacker
	from("ann", "2001:db8::77").want(http.StatusOK)
	var flood sync.WaitGroup
	for i := range 40 { // at once, with names that exist and others
		flood.Go(func() {
			a := s.send("", http.MethodGet, "", nil, "X-Forwarded-For", fmt.Sprintf("9.9.9.%d, 2001:db8::%x, 10.9.9.9", i, i), "Authorization", "Basic YW5uOndyb25n")
			if a.StatusCode != 401 && a.StatusCode != 429 {
				t.Errorf("status %d", a.StatusCode)
			}
		})
	}
	flood.Wait()
	if a := from("ben", attacker).want(http.StatusTooManyRequests, "Wait a minute"); a.Header.Get("Retry-After") == "" || a.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("%v", a.Header)
	}
	from("ann", attacker).want(http.StatusOK)          // her password was right before
	from("ben", "1.2.3.4").want(http.StatusOK)         // another client of the proxy
	from("rob", "2001:db8:0:1::1").want(http.StatusOK) // another network
	from("rob", "not an address").want(http.StatusOK)  // the proxy itself
	from("nobody", "5.6.7.8").want(http.StatusUnauthorized, "one of its users")
	counted, _ := s.page.Collector().(*prometheus.CounterVec)
	for result, want := range map[string]float64{"wrong_password": 6, "too_many_wrong_passwords": 36, "login": 3} {
		if n := testutil.ToFloat64(counted.WithLabelValues(result)); n != want {
			t.Errorf("%s: %v, want %v", result, n, want)
		}
		if !strings.Contains(s.logged.String(), "result="+result) {
			t.Errorf("%s is not logged", result)
		}
	}
	if text := s.logged.String(); strings.Contains(text, "wrong ") || strings.Contains(text, "nobody") || !strings.Contains(text, "client=2001:db8::/64") {
		t.Errorf("logged\n%s", text)
	}
}

// TestWithoutProxiesTheHeaderIsNotBelieved: a client could give itself a new address each time.
func TestWithoutProxiesTheHeaderIsNotBelieved(t *testing.T) {
	t.Parallel()
	s := newSite(t, withUsers())
	for i := range 5 {
		s.send("eve", http.MethodGet, "", nil, "X-Forwarded-For", fmt.Sprintf("1.1.1.%d", i)).want(http.StatusUnauthorized)
	}
	s.send("ann", http.MethodGet, "", nil, "X-Forwarded-For", "2.2.2.2").want(http.StatusTooManyRequests)
}

// TestUsersChangeWithoutARestart: who is removed, or has another password, is out at once.
func TestUsersChangeWithoutARestart(t *testing.T) {
	t.Parallel()
	users, err := map[string]string{"ann": hashes()["ann"]}, error(nil)
	c := withUsers()
	c.Users = func() (map[string]string, error) { return users, err }
	s := newSite(t, c)
	s.get("ann", "").want(http.StatusOK, "ann may look and decide")
	s.get("rob", "").want(http.StatusUnauthorized)
	users = map[string]string{"rob": hashes()["rob"], "ann": hashes()["rob"]}
	s.get("rob", "").want(http.StatusOK, "rob may look ·")
	if a := s.get("ann", "").want(http.StatusUnauthorized); !strings.Contains(a.Header.Get("WWW-Authenticate"), `realm="outbox"`) {
		t.Errorf("%v", a.Header)
	}
	users = map[string]string{"rosa": hashes()["rob"]} // renamed, with the same password
	s.get("rob", "").want(http.StatusUnauthorized)
	users, err = nil, errors.New("users.yml is gone")
	s.get("rob", "").want(http.StatusServiceUnavailable).wantNot("users.yml")
}
