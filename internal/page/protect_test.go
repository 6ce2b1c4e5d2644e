package page

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// wantedHeaders are written a second time here, so that nobody removes one by mistake.
var wantedHeaders = map[string]string{
	"Content-Security-Policy":      "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"X-Frame-Options":              "DENY",
	"Cache-Control":                "no-store",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

func TestEachAnswerHasTheSecurityHeaders(t *testing.T) {
	t.Parallel()
	demo := serve(t, newPage(t, Config{Demo: true}))
	closed := serve(t, newPage(t, Config{Users: account(t, "ann", "read")}))
	off := serve(t, newPage(t, Config{}))
	style, err := assetPath("page.css")
	if err != nil {
		t.Fatal(err)
	}
	for what, a := range map[string]answer{
		"overview":   ask(t, "GET", demo+"/", ""),
		"not found":  ask(t, "GET", demo+"/nothing", ""),
		"asset":      ask(t, "GET", demo+style, ""),
		"wrong host": ask(t, "GET", demo+"/", "", host("example.com")),
		"refused":    ask(t, "POST", demo+"/", "", header("Sec-Fetch-Site", "cross-site")),
		"no login":   ask(t, "GET", closed+"/", ""),
		"off":        ask(t, "GET", off+"/", ""),
	} {
		for name, value := range wantedHeaders {
			got := a.header.Get(name)
			if what == "asset" && name == "Cache-Control" {
				value = "public, max-age=31536000, immutable"
			}
			if got != value {
				t.Errorf("%s: %s is %q, want %q", what, name, got, value)
			}
		}
	}
}

func TestPagesHaveNoInlineScriptOrStyle(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	p.Handle("GET /all", Read, func(context.Context, *Request) (Result, error) { return Show("All", allParts("x")...), nil })
	url := serve(t, p)
	for _, path := range []string{"/", "/all", "/nothing"} {
		body := ask(t, "GET", url+path, "").body
		for _, inline := range []string{"<style", " style=", " onclick", " onload", "<script>", "javascript:", "http-equiv"} {
			if strings.Contains(body, inline) {
				t.Errorf("%s has %q", path, inline)
			}
		}
	}
}

func TestThePageIsOffOutsideTheDemoWithoutUsers(t *testing.T) {
	t.Parallel()
	url := serve(t, newPage(t, Config{}))
	for _, path := range []string{"/", "/events", "/failed"} {
		ask(t, "GET", url+path, "").want(t, http.StatusNotFound, "PAGE_USERS")
	}
}

func TestTheDemoAnswersOnlyAtThisMachine(t *testing.T) {
	t.Parallel()
	url := serve(t, newPage(t, Config{Demo: true}))
	for name, want := range map[string]int{
		"localhost": 200, "localhost:4100": 200, "127.0.0.1:4100": 200, "[::1]:4100": 200, "[::1]": 200, "LOCALHOST:1": 200,
		"example.com": 403, "localhost.example.com": 403, "127.0.0.1.nip.io:4100": 403, "192.0.2.7:4100": 403, "localhost.": 403,
	} {
		if got := ask(t, "GET", url+"/", "", host(name)); got.status != want {
			t.Errorf("Host %s: status %d, want %d", name, got.status, want)
		}
	}
	withUsers := serve(t, newPage(t, Config{Demo: true, Users: account(t, "ann", "read")}))
	ask(t, "GET", withUsers+"/", "", host("example.com"), as("ann", testPassword)).want(t, http.StatusOK, "Overview")
	ask(t, "GET", withUsers+"/", "").want(t, http.StatusUnauthorized, "PAGE_USERS")
}

func TestAnotherOriginCannotChangeAnything(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	p := newPage(t, Config{Demo: true})
	p.Handle("POST /change", Operate, func(context.Context, *Request) (Result, error) {
		calls.Add(1)
		return Redirect("/"), nil
	})
	url := serve(t, p)
	for _, foreign := range []with{
		header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Site", "same-site"),
		header("Origin", "http://example.com"), header("Origin", "null"), header("Origin", "http://localhost:4101"),
	} {
		ask(t, "POST", url+"/change", "a=b", foreign).want(t, http.StatusForbidden, "another site")
	}
	if calls.Load() != 0 {
		t.Fatalf("%d requests of another origin reached the handler", calls.Load())
	}
	for _, own := range []with{header("Sec-Fetch-Site", "same-origin"), header("Origin", url)} {
		ask(t, "POST", url+"/change", "a=b", own).want(t, http.StatusSeeOther, "")
	}
	if calls.Load() != 2 {
		t.Errorf("%d own requests reached the handler, want 2", calls.Load())
	}
}

func TestAnotherSiteMayLinkAndNotLoadInTheBackground(t *testing.T) {
	t.Parallel()
	url := serve(t, newPage(t, Config{Demo: true}))
	link := []with{header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate")}
	ask(t, "GET", url+"/", "", link...).want(t, http.StatusOK, "Overview")
	for _, mode := range []string{"cors", "no-cors", "same-origin"} {
		load := []with{header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", mode)}
		ask(t, "GET", url+"/events", "", load...).want(t, http.StatusForbidden, "Another site")
	}
}

func TestAGetNeverReachesAHandlerOfPost(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	p.Handle("POST /change", Operate, func(context.Context, *Request) (Result, error) {
		t.Error("the handler was called")
		return Result{}, nil
	})
	url := serve(t, p)
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"} {
		if got := ask(t, method, url+"/change", ""); got.status != http.StatusNotFound {
			t.Errorf("%s: status %d", method, got.status)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a pattern without a method is accepted: GET would reach it")
		}
	}()
	p.Handle("/change", Operate, hello)
}

func TestALongBodyIsRefused(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	p.Handle("POST /change", Operate, hello)
	url := serve(t, p)
	ask(t, "POST", url+"/change", "a="+strings.Repeat("x", maxBody)).want(t, http.StatusRequestEntityTooLarge, "too long")
	ask(t, "POST", url+"/change", "a=%zz").want(t, http.StatusBadRequest, "cannot be read")
	ask(t, "POST", url+"/change", "a="+strings.Repeat("x", maxBody-100)).want(t, http.StatusOK, "hello")
}
