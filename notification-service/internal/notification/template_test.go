package notification

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/contract"
	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

var update = flag.Bool("update", false, "write the golden files in testdata")

// TestTheEmailsAreTheGoldenFiles compares the e-mails of all events with the golden files.
func TestTheEmailsAreTheGoldenFiles(t *testing.T) {
	t.Parallel()
	service := NewService(Config{From: "shop@example.com"}, nil, nil, nil)
	for _, key := range EventKeys {
		details, err := contract.Events.ReadFile(key + ".json")
		if err != nil {
			t.Fatal(err)
		}
		event, err := service.Parse(rabbitmq.Message{Type: key, Body: details})
		if err != nil {
			t.Fatal(err)
		}
		e, err := service.compose(Notification{
			MessageID: uuid.MustParse("0199a0b1-c2d3-7e4f-8a5b-000000000042"), EventKey: key, Recipient: "ada@example.com",
			Event: event, StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		})
		if err != nil {
			t.Fatal(err)
		}
		golden(t, key+".txt", e.Text)
		golden(t, key+".html", e.HTML)
		golden(t, key+".eml", rawMessage(t, e))
	}
}

// rawMessage is an e-mail as it arrives at the mail server. Its boundary is random.
func rawMessage(t *testing.T, e mailer.Email) string {
	t.Helper()
	got := sendToServer(t, e)[0]
	raw := strings.ReplaceAll(got.Raw, got.Boundary(t), "golden")
	return strings.ReplaceAll(raw, "\r\n", "\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s is not what customers get (go test -update writes it), error %v:\n%s", path, err, got)
	}
}

// TestAnEmailLoadsNothing: mail programs block it, or it shows the sender who reads.
func TestAnEmailLoadsNothing(t *testing.T) {
	t.Parallel()
	html := strings.ToLower(composedEmail(t, "sku123", "GBP").HTML)
	for _, loads := range []string{"http:", "https:", "src=", "url(", "<link", "<script", "<style", "@import"} {
		if strings.Contains(html, loads) {
			t.Errorf("the HTML has %s", loads)
		}
	}
}

func TestPrice(t *testing.T) {
	t.Parallel()
	for want, of := range map[string]struct {
		minor    int64
		currency string
	}{
		"£29.99":                     {2999, "GBP"},
		"€0.05":                      {5, "EUR"},
		"$999.00":                    {99900, "USD"},
		"$1,000.00":                  {100000, "USD"},
		"CHF 1,234,567.89":           {123456789, "CHF"},
		"\\   0.01":                  {1, "\\\r\n"},
		"£1,000,001.00":              {100000100, "GBP"},
		"£92,233,720,368,547,758.07": {1<<63 - 1, "GBP"},
	} {
		if got := formatPrice(of.minor, of.currency); got != want {
			t.Errorf("%d of %s is %q, want %q", of.minor, of.currency, got, want)
		}
	}
}

func TestASingleLineIsOneLineOfBoundedLength(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"sku123": "sku123", "Grüße 😀": "Grüße 😀", "a\r\nb\x00c\u2028d\u202ee\xff": "a  b c d e\ufffd",
		strings.Repeat("ü", 80): strings.Repeat("ü", 80), strings.Repeat("ü", 81): strings.Repeat("ü", 79) + "…",
	} {
		if got := singleLine(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
