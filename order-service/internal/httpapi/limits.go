package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/go-chi/httprate"
)

// maxBody bounds a request body, in bytes. maxDuration bounds the work on a request after its
// body is read, so that a slow client is not taken for a slow database. An order needs a
// thousandth of either.
const (
	maxBody     = 64 << 10
	maxDuration = 5 * time.Second
)

// Limits are how many requests clients may send. Requests beyond them are refused at once, with
// Retry-After.
type Limits struct {
	InFlight int // requests in progress, of all clients together
	Rate     int // requests per second and client address; 0 means any number
}

// The values of the label "by": which limit refused the request.
const (
	refusedInFlight = "in_flight"
	refusedRate     = "rate"
)

func limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// withinLimits runs work in one of the slots for requests in flight, with a deadline, and sends
// the problem if it fails. It runs after the body is read, so that a client that sends slowly
// does not take a slot from the others.
func (a *api) withinLimits(w http.ResponseWriter, r *http.Request, work func(context.Context) error) {
	if !a.slots.TryAcquire(1) {
		a.metrics.countRefusal(refusedInFlight)
		writeProblem(w, r, problem(http.StatusServiceUnavailable, "too many requests are in progress, and this one was not processed; try again"))
		return
	}
	defer a.slots.Release(1)
	ctx, cancel := context.WithTimeout(r.Context(), maxDuration)
	defer cancel()
	if err := work(ctx); err != nil {
		writeProblem(w, r, problemOf(r, err))
	}
}

// limitRate counts over a sliding second. It drops an address after two seconds without requests.
func (a *api) limitRate(perSecond int) func(http.Handler) http.Handler {
	refuse := func(w http.ResponseWriter, r *http.Request) {
		a.metrics.countRefusal(refusedRate)
		writeProblem(w, r, problem(http.StatusTooManyRequests, "too many requests from this address, and this one was not processed; try again later"))
	}
	return httprate.LimitBy(perSecond, time.Second, clientAddress,
		httprate.WithLimitHandler(refuse), httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
}

// clientAddress counts a whole IPv6 network of 64 bits as one client, because one client can use
// every address in it.
func clientAddress(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return httprate.CanonicalizeIP(host), err
}
