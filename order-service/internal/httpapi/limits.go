package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/go-chi/httprate"
)

// maxBody bounds a request body, in bytes; maxDuration bounds the work on one
// request, once its body is read: a slow client is not a slow database. An order
// needs a thousandth of either.
const (
	maxBody     = 64 << 10
	maxDuration = 5 * time.Second
)

// Limits are what clients may ask for at a time: beyond them, they are refused at once,
// and told to come back.
type Limits struct {
	InFlight int // requests at work, of all clients together
	Rate     int // requests per second and client address; 0: any number
}

// What a request is refused by, as a label.
const (
	byInFlight = "in_flight"
	byRate     = "rate"
)

func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// perform gives work a place among the requests in flight, and the time that it may
// take, and tells the client of its error. The body has been read by then: a client that
// sends slowly takes no place from the others.
func (a *api) perform(w http.ResponseWriter, r *http.Request, work func(context.Context) error) {
	if !a.places.TryAcquire(1) {
		a.metrics.refuse(byInFlight)
		write(w, r, problem(http.StatusServiceUnavailable, "too many requests are in hand, and nothing was done with this one; try again"))
		return
	}
	defer a.places.Release(1)
	ctx, cancel := context.WithTimeout(r.Context(), maxDuration)
	defer cancel()
	if err := work(ctx); err != nil {
		write(w, r, problemOf(r, err))
	}
}

// limitRate counts over a sliding second, and forgets who has been silent for two.
func (a *api) limitRate(perSecond int) func(http.Handler) http.Handler {
	refuse := func(w http.ResponseWriter, r *http.Request) {
		a.metrics.refuse(byRate)
		write(w, r, problem(http.StatusTooManyRequests, "this address asks too often; nothing was done, try again later"))
	}
	return httprate.LimitBy(perSecond, time.Second, clientAddress,
		httprate.WithLimitHandler(refuse), httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
}

// clientAddress takes all of an IPv6 network of 64 bits for one client, who can have any
// address in it.
func clientAddress(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return httprate.CanonicalizeIP(host), err
}
