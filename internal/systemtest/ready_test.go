package systemtest

import (
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestTheConsumerTellsWhatItWaitsFor takes away what it needs, one after the other, and
// gives it back.
func TestTheConsumerTellsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	broker, throughBroker := s.proxied(notificationService)
	database, throughDatabase := s.before("database")
	mail, throughMail := s.before("mail")
	refuse(broker)
	service := s.runNotifications(throughBroker, throughDatabase, throughMail)
	service.awaitWaiting("a session with the broker", "a session with the broker, for copies")
	admit(broker)
	service.awaitWaiting("the exchange outbox.events")
	service.wantHealth("waiting for the exchange outbox.events")
	s.declareExchange()
	service.awaitWaiting()
	service.wantHealth("")

	refuse(database)
	service.awaitWaiting("the database")
	admit(database)
	service.awaitWaiting()

	refuse(mail)
	s.emit(ordersOf(1)...)
	service.awaitWaiting("mail")
	refuse(broker)
	service.awaitWaiting("a session with the broker", "a session with the broker, for copies", "mail")
	admit(mail)
	admit(broker)
	service.awaitWaiting()
	s.awaitCount(s.notifications, 1, sent)

	// Nobody tells the service of it: it looks every ten seconds.
	s.at(func(c *amqp.Channel) error { return c.ExchangeDelete(exchange, false, false) })
	service.awaitWaiting("the exchange outbox.events")
	s.declareExchange()
	service.awaitWaiting()
}

// TestOrderServiceIsReadyWithoutTheBroker and not without its database.
func TestOrderServiceIsReadyWithoutTheBroker(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	broker, throughBroker := s.proxied(orderService)
	refuse(broker)
	orders := s.runOrders(throughBroker)
	orders.await("no session with the broker, trying again")
	orders.await("taking orders")
	orders.wantHealth("")
}

// awaitWaiting waits until /readyz names exactly these; none: until the service is ready.
// It is alive all the time.
func (s *service) awaitWaiting(want ...string) {
	s.Helper()
	ask := time.NewTicker(50 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(patience); ; <-ask.C {
		if status, _ := s.ask("/livez"); status != http.StatusOK {
			s.Fatalf("/livez answers %d", status)
		}
		status, text := s.ask("/readyz")
		if slices.Equal(waitsFor(text), want) && (status == http.StatusOK) == (want == nil) {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("/readyz answers %d %q, want that it waits for %q", status, text, want)
		}
	}
}

// waitsFor reads what /readyz names; an explanation follows a colon.
func waitsFor(text string) (names []string) {
	for line := range strings.Lines(strings.TrimPrefix(text, "not ready: ")) {
		if what, waits := strings.CutPrefix(strings.TrimSpace(line), "waiting for "); waits {
			name, _, _ := strings.Cut(what, ":")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s *service) ask(path string) (status int, text string) {
	s.Helper()
	response, err := http.Get("http://" + s.ops() + path)
	must(s.T, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(s.T, err)
	return response.StatusCode, string(body)
}

// wantHealth runs the command healthcheck, and wants it to say why not; "": to be fine.
func (s *service) wantHealth(reason string) {
	s.Helper()
	check := exec.Command(filepath.Join(binaries, s.name), "healthcheck")
	check.Env = []string{"OPS_ADDR=" + s.ops(), "DATABASE_URL=postgres://own:own@db/own", "AMQP_URL=amqp://own:own@mq/"}
	said, err := check.CombinedOutput()
	if healthy := reason == ""; healthy != (err == nil) || !strings.Contains(string(said), reason) {
		s.Errorf("healthcheck: %v, and it says %q; want %q", err, said, reason)
	}
}
