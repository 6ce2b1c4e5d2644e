package page

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/internal/page/users"
)

func TestRolesDecideWhatAUserMayDo(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Users: account(t, "ann", "read") + account(t, "bob", "operate")})
	p.Handle("GET /see", Read, hello)
	p.Handle("POST /change", Operate, hello)
	url := serve(t, p)
	for _, test := range []struct {
		user, method, path string
		want               int
	}{
		{"ann", "GET", "/see", 200},
		{"ann", "POST", "/change", 403},
		{"bob", "GET", "/see", 200},
		{"bob", "POST", "/change", 200},
	} {
		if got := ask(t, test.method, url+test.path, "", as(test.user, testPassword)); got.status != test.want {
			t.Errorf("%s %s by %s: status %d, want %d", test.method, test.path, test.user, got.status, test.want)
		}
	}
	ask(t, "POST", url+"/change", "", as("ann", testPassword)).want(t, http.StatusForbidden, "ann has the role read, and this needs the role operate")
}

func TestEverythingNeedsALogin(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Users: account(t, "ann", "read")})
	p.Handle("GET /see", Read, hello)
	url := serve(t, p)
	for _, path := range []string{"/", "/see", "/events", "/nothing", "/assets/x/page.css"} {
		got := ask(t, "GET", url+path, "")
		got.want(t, http.StatusUnauthorized, "PAGE_USERS")
		if want := `Basic realm="order-service", charset="UTF-8"`; got.header.Get("WWW-Authenticate") != want {
			t.Errorf("%s asks for %q", path, got.header.Get("WWW-Authenticate"))
		}
	}
}

func TestWrongUsersStopTheStart(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{Users: "ann:read"}); err == nil {
		t.Error("no error")
	}
}

func TestFailedLoginsOfOneClientAreLimited(t *testing.T) {
	t.Parallel()
	url := serve(t, newPage(t, Config{Users: account(t, "ann", "read") + account(t, "bob", "read")}))
	ask(t, "GET", url+"/", "", as("ann", testPassword)).want(t, http.StatusOK, "Overview")
	for range failuresPerClient {
		ask(t, "GET", url+"/", "", as("ann", "wrong password")).want(t, http.StatusUnauthorized, "")
	}
	got := ask(t, "GET", url+"/", "", as("ann", "wrong password"))
	got.want(t, http.StatusTooManyRequests, "wrong passwords")
	if wait, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || wait < 1 || wait > 60 {
		t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
	}
	ask(t, "GET", url+"/", "", as("bob", testPassword)).want(t, http.StatusTooManyRequests, "wrong passwords")
	ask(t, "GET", url+"/", "", as("ann", testPassword)).want(t, http.StatusOK, "Overview") // it is remembered
}

func TestManyGuessesAtTheSameTimeAreLimited(t *testing.T) {
	t.Parallel()
	l := newTestLogin(t)
	var verified, refused sync.Map
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			_, ok, wait := l.check(t.Context(), "192.0.2."+strconv.Itoa(i), "ann", "guess "+strconv.Itoa(i))
			if ok {
				t.Error("a guess was right")
			}
			if wait > 0 {
				refused.Store(i, true)
			} else {
				verified.Store(i, true)
			}
		})
	}
	all.Wait()
	if n := size(&verified); n != failuresInAll {
		t.Errorf("%d guesses were checked, want %d", n, failuresInAll)
	}
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

func newTestLogin(t *testing.T) *login {
	t.Helper()
	accounts, err := users.Parse(account(t, "ann", "read"))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := users.NewVerifier(accounts)
	if err != nil {
		t.Fatal(err)
	}
	return newLogin(verifier)
}

func TestFailedLoginsCountForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := failures{now: time.Now}
		for range failuresPerClient {
			if wait := f.wait("a"); wait != 0 {
				t.Fatalf("after fewer failures the wait is %s", wait)
			}
			f.add("a")
			time.Sleep(time.Second)
		}
		if wait := f.wait("a"); wait != 55*time.Second {
			t.Errorf("the wait is %s, want 55s", wait)
		}
		if wait := f.wait("b"); wait != 0 {
			t.Errorf("another client waits %s", wait)
		}
		for i := range failuresInAll - failuresPerClient {
			f.add("c" + strconv.Itoa(i))
		}
		if wait := f.wait("b"); wait == 0 {
			t.Error("there is no limit for all clients together")
		}
		time.Sleep(failureWindow)
		if wait := f.wait("a"); wait != 0 || len(f.list) != 0 {
			t.Errorf("after a minute the wait is %s, and %d failures are kept", wait, len(f.list))
		}
	})
}

func TestARememberedPasswordIsNotThatOfAnotherName(t *testing.T) {
	t.Parallel()
	l := newTestLogin(t)
	if l.fingerprint("a", "bc") == l.fingerprint("ab", "c") {
		t.Error("two logins have one fingerprint")
	}
	if l.fingerprint("a", "bc") == newTestLogin(t).fingerprint("a", "bc") {
		t.Error("two processes have one key")
	}
	ctx, end := context.WithCancel(t.Context())
	if _, ok, _ := l.check(ctx, "x", "ann", testPassword); !ok {
		t.Error("the right password is refused")
	}
	l.turn <- struct{}{} // nobody can check a password now
	if _, ok, _ := l.check(ctx, "x", "ann", testPassword); !ok {
		t.Error("the right password was not remembered")
	}
	end()
	if _, ok, _ := l.check(ctx, "x", "ann", "wrong"); ok {
		t.Error("a wrong password is accepted")
	}
}

func TestAnIPv6NetworkIsOneClient(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.7:80": "192.0.2.7", "[::ffff:192.0.2.7]:80": "192.0.2.7",
		"[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64", "[2001:db8:1:2:ffff::9]:1": "2001:db8:1:2::/64",
	} {
		if got := clientOf(&http.Request{RemoteAddr: address}); got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
}
