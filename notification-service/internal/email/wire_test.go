package email_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/test/env/check"
	"example.com/transactional-outbox/test/env/smtptest"
)

// sendToServer sends the e-mails of orders to a mail server, and returns what arrived there.
func sendToServer(t *testing.T, orders ...email.Order) []smtptest.Email {
	t.Helper()
	server := &smtptest.Server{}
	destination, err := mailer.New(mailer.Config{
		URL: "smtp://" + server.Start(t), From: "shop@example.com", Connections: 1, Compose: email.Compose,
	})
	check.Must(t, err)
	messages := make([]publish.Message, len(orders))
	for i, o := range orders {
		payload, err := json.Marshal(o)
		check.Must(t, err)
		messages[i] = publish.Message{ID: messageID, Topic: "example.com", Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Body: payload}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err = destination.KeepConnected(ctx, func(_ context.Context, s publish.Session) error {
		defer stop()
		p, err := s.NewPublisher(len(messages))
		if err != nil {
			return err
		}
		defer p.Close()
		for i, r := range publish.All(p, messages, time.Minute) {
			if r.Outcome != publish.Confirmed {
				t.Errorf("e-mail %d: %+v", i, r)
			}
		}
		return nil
	})
	if received := server.Received(); err == nil && len(received) == len(orders) {
		return received
	}
	t.Fatalf("%d e-mails, want %d, error %v", len(server.Received()), len(orders), err)
	return nil
}

var update = flag.Bool("update", false, "write the golden files in testdata")

// TestWhatArrivesIsTheGoldenFiles compares what a mail server gets. Its boundary is random.
func TestWhatArrivesIsTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for _, topic := range email.Topics {
		got := sendToServer(t, contractEvent(t, topic))[0]
		raw := strings.ReplaceAll(got.Raw, got.Boundary(t), "golden")
		golden(t, topic+".eml", strings.ReplaceAll(raw, "\r\n", "\n"))
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		check.Must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s is not what customers get (go test -update writes it), error %v:\n%s", path, err, got)
	}
}

// TestNothingOfAnEventBreaksOutOfItsEmail sends what an event should never hold, and reads what
// a mail server understands.
func TestNothingOfAnEventBreaksOutOfItsEmail(t *testing.T) {
	t.Parallel()
	const evil = "x\r\nBcc: eve@example.com\r\n\r\n<script>alert(1)</script>\r\n.\r\nRCPT TO:<eve@example.com>\x00\u2028\u202e"
	good := email.Order{Type: email.OrderCreated, OrderID: uuid.New(), CustomerEmail: "ada@example.com", ProductID: "sku123", Quantity: 2, Amount: 5998, Currency: "GBP"}
	bad := good
	bad.ProductID, bad.Currency = evil, "<b>"
	all := sendToServer(t, good, bad)
	for _, e := range all {
		if e.To != "ada@example.com" || !slices.Equal(e.HeaderNames(t), all[0].HeaderNames(t)) {
			t.Errorf("to %v with headers %v", e.To, e.HeaderNames(t))
		}
		if _, html := e.Bodies(t); strings.Contains(html, "<script") || strings.Contains(html, "<b>") {
			t.Errorf("HTML %s", html)
		}
		if text, _ := e.Bodies(t); strings.Contains(text, "\nBcc") || strings.Contains(text, "\n.\n") {
			t.Errorf("the product makes lines of its own:\n%s", text)
		}
	}
}
