package mailer

import (
	"cmp"
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/notification-service/internal/mailer/mailertest"
	"example.com/transactional-outbox/outbox/publish"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stepTimeout is far longer than anything in these tests takes.
const stepTimeout = 2 * time.Minute

// testEmail is an e-mail whose text a careless client would cut at the dot.
func testEmail() Email {
	return Email{To: "ada@example.com", Subject: "Grüße", Text: "Hello\n.\nAda\n", HTML: "<p>Hello\n.\nAda</p>\n"}
}

// compose takes the recipient from the message's body.
func compose(m publish.Message) (Email, error) {
	e := testEmail()
	e.To = cmp.Or(string(m.Body), e.To)
	return e, nil
}

// newDestination returns a destination with that many connections. Its first argument may change
// it.
func newDestination(t testing.TB, url string, connections int, change ...func(*Destination)) *Destination {
	t.Helper()
	d, err := New(Config{URL: url, From: "shop@example.com", Connections: connections, Compose: compose})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(d)
	}
	return d
}

// connect opens a session, which lasts until the test ends, or until lost.
func connect(t testing.TB, d *Destination) (s publish.Session, lost context.Context) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	type opened struct {
		session publish.Session
		lost    context.Context
	}
	sessions, ended := make(chan opened, 1), make(chan error, 1)
	go func() {
		ended <- d.KeepConnected(ctx, func(lost context.Context, s publish.Session) error {
			select {
			case sessions <- opened{s, lost}:
			default:
			}
			<-lost.Done()
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
	case o := <-sessions:
		return o.session, o.lost
	case <-time.After(stepTimeout):
		t.Fatal("there is no session")
		return nil, nil
	}
}

// newPublisher opens a session with a publisher.
func newPublisher(t testing.TB, d *Destination) publish.Publisher {
	t.Helper()
	s, _ := connect(t, d)
	p, err := s.NewPublisher(64)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// message is one to an address, in its own group.
func message(to string) publish.Message {
	return publish.Message{ID: "42", Topic: Domain(to), Group: to, Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Body: []byte(to)}
}

func adas(n int) []publish.Message {
	all := make([]publish.Message, n)
	for i := range all {
		all[i] = message("ada@example.com")
	}
	return all
}

// send sends messages and waits for their results.
func send(t testing.TB, p publish.Publisher, messages ...publish.Message) []publish.Result {
	t.Helper()
	return publish.All(p, messages, stepTimeout)
}

// sendOne sends one message.
func sendOne(t testing.TB, p publish.Publisher) publish.Result {
	t.Helper()
	return send(t, p, adas(1)...)[0]
}

// confirm sends n messages one after the other. All must be confirmed.
func confirm(t testing.TB, p publish.Publisher, n int) {
	t.Helper()
	for i, r := range send(t, p, adas(n)...) {
		if r.Outcome != publish.Confirmed {
			t.Fatalf("message %d of %d: %s, %v", i, n, names[r.Outcome], r.Err)
		}
	}
}

var names = map[publish.Outcome]string{
	publish.Unknown: "Unknown", publish.Confirmed: "Confirmed", publish.Returned: "Returned",
	publish.Refused: "Refused", publish.Invalid: "Invalid", publish.NotSent: "NotSent",
}

// startMail returns a mail server, and a publisher that sends to it.
func startMail(t testing.TB) (*mailertest.Server, publish.Publisher) {
	t.Helper()
	server := &mailertest.Server{}
	return server, newPublisher(t, newDestination(t, "smtp://"+server.Start(t), 8))
}

// waitUntil waits until something is true.
func waitUntil(t *testing.T, name string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(stepTimeout); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: it does not happen", name)
		}
	}
}
