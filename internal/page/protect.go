package page

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// headers are set on every answer.
var headers = map[string]string{
	"Content-Security-Policy":      "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"X-Frame-Options":              "DENY",
	"Cache-Control":                "no-store", // assets have another one
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

// protected puts all checks before the pages. In this order, a request that is refused costs
// little.
func (p *Page) protected(pages http.Handler) http.Handler {
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(refuse("This request comes from another site, so it is refused. Nothing was changed."))
	checked := guard.Handler(sameSite(p.authenticated(pages)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		switch {
		case p.off:
			http.Error(w, offText, http.StatusNotFound)
		case p.login == nil && !isLoopback(r.Host):
			http.Error(w, hostText, http.StatusForbidden)
		default:
			checked.ServeHTTP(w, r)
		}
	})
}

const (
	offText = "The page is off. To switch it on, set PAGE_USERS or PAGE_USERS_FILE to lines that the command page-user prints."
	// In the demo anybody who reaches the port may decide. Another site could make a browser reach it
	// by a name of its own that resolves to 127.0.0.1 (DNS rebinding).
	hostText = "Without PAGE_USERS, the page answers only at localhost, 127.0.0.1 and [::1]."
)

// isLoopback reports whether the Host header names this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	return slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, host)
}

// sameSite refuses what other sites load in the background, such as /events. It lets links through:
// with them the browser shows the page, and the other site cannot read it. Browsers have sent these
// headers since 2023.
func sameSite(next http.Handler) http.Handler {
	refused := refuse("Another site may link to this page, and may not load it in the background.")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site, mode := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode")
		if (site == "cross-site" || site == "same-site") && mode != "navigate" {
			refused.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuse(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, http.StatusForbidden) })
}

// clientOf returns the address of the client. An IPv6 /64 is one client, because one machine has
// all its addresses.
func clientOf(r *http.Request) string {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip := address.Addr().Unmap().WithZone("")
	if prefix, err := ip.Prefix(64); err == nil && ip.Is6() {
		return prefix.String()
	}
	return ip.String()
}
