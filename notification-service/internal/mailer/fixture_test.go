package mailer

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/smtptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit bounds each wait.
const limit = 2 * time.Minute

// compose takes the recipient from the message's body.
func compose(m publish.Message) (Email, error) {
	return Email{To: cmp.Or(string(m.Body), "ada@example.com"), Subject: "Grüße", Text: "Hello\n", HTML: "<p>Hello</p>\n"}, nil
}

// newDestination returns a destination with that many connections.
func newDestination(t testing.TB, url string, connections int) *Destination {
	t.Helper()
	d, err := New(Config{URL: url, From: "shop@example.com", Connections: connections, Compose: compose})
	check.Must(t, err)
	return d
}

// start starts a server, and returns a destination with that many connections to it.
func start(t testing.TB, server *smtptest.Server, connections int) *Destination {
	t.Helper()
	return newDestination(t, "smtp://"+server.Start(t), connections)
}

// connect opens a session, which lasts until the test ends, or until lost.
func connect(t testing.TB, d *Destination) (s publish.Session, lost context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	ended, opened := make(chan error, 1), make(chan bool, 1)
	go func() {
		ended <- d.KeepConnected(ctx, func(use context.Context, session publish.Session) error {
			if s == nil { // the first one
				s, lost = session, use
				opened <- true
			}
			<-use.Done()
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-opened:
	case <-ctx.Done():
		t.Fatal("there is no session")
	}
	return s, lost
}

// newPublisher opens a session with a publisher.
func newPublisher(t testing.TB, d *Destination) publish.Publisher {
	t.Helper()
	s, _ := connect(t, d)
	p, err := s.NewPublisher(64)
	check.Must(t, err)
	t.Cleanup(p.Close)
	return p
}

// message is one to an address, in its own group.
func message(to string) publish.Message {
	return publish.Message{ID: "42", Topic: Domain(to), Group: to, Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Body: []byte(to)}
}

// spread returns n messages of as many groups, to a name in that many domains of its own.
func spread(n, domains int, name string) (all []publish.Message) {
	for i := range n {
		m := message(fmt.Sprintf("%s@%d.%s.example", name, i%domains, name))
		m.Group = name + fmt.Sprint(i)
		all = append(all, m)
	}
	return all
}

// begin sends messages, and returns a channel that gets their results.
func begin(ctx context.Context, p publish.Publisher, messages ...publish.Message) <-chan publish.Result {
	results := make(chan publish.Result, len(messages))
	p.Publish(ctx, messages, func(_ int, r publish.Result) { results <- r })
	return results
}

// send sends messages and waits for their results.
func send(p publish.Publisher, messages ...publish.Message) []publish.Result {
	return publish.All(p, messages, limit)
}

func sendOne(p publish.Publisher) publish.Result { return send(p, message("ada@example.com"))[0] }

// confirm sends messages, which must be confirmed.
func confirm(t testing.TB, p publish.Publisher, messages ...publish.Message) {
	t.Helper()
	for i, r := range send(p, messages...) {
		if r.Outcome != publish.Confirmed {
			t.Fatalf("message %d of %d: %s (%v)", i, len(messages), names[r.Outcome], r.Err)
		}
	}
}

var names = map[publish.Outcome]string{
	publish.Unknown: "Unknown", publish.Confirmed: "Confirmed", publish.Returned: "Returned",
	publish.Refused: "Refused", publish.Invalid: "Invalid", publish.NotSent: "NotSent",
}
