package notification

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/contract"
	"example.com/transactional-outbox/internal/rabbitmq"
)

var update = flag.Bool("update", false, "write the golden files in testdata")

// TestWhatCustomersRead compares the e-mails of all events with the golden files.
func TestWhatCustomersRead(t *testing.T) {
	t.Parallel()
	service := NewService(Config{From: "shop@example.com"}, nil, nil, nil)
	for _, key := range Keys {
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
		golden(t, key+".eml", whole(t, e))
	}
}

// whole is an e-mail as it goes over the wire. The boundary is random otherwise.
func whole(t *testing.T, e Email) string {
	t.Helper()
	message, err := e.message()
	if err != nil {
		t.Fatal(err)
	}
	message.SetBoundary("golden")
	var b bytes.Buffer
	if _, err := message.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(b.String(), "\r\n", "\n")
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

// TestAnEmailLoadsNothing: mail programs block it, or tell the sender who reads.
func TestAnEmailLoadsNothing(t *testing.T) {
	t.Parallel()
	html := strings.ToLower(composed(t, "sku123", "GBP").HTML)
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
		if got := price(of.minor, of.currency); got != want {
			t.Errorf("%d of %s is %q, want %q", of.minor, of.currency, got, want)
		}
	}
}

func TestPlainIsOneLineOfBoundedLength(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"sku123": "sku123", "Grüße 😀": "Grüße 😀", "a\r\nb\x00c\u2028d\u202ee\xff": "a  b c d e\ufffd",
		strings.Repeat("ü", 80): strings.Repeat("ü", 80), strings.Repeat("ü", 81): strings.Repeat("ü", 79) + "…",
	} {
		if got := plain(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
