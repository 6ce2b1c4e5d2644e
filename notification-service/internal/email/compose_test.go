package email_test

import (
	"strings"
	"testing"

	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/outbox/publish"
)

// TestComposeRefusesWhatItDoesNotKnow: the e-mail waits in the outbox, and a newer version may
// know it.
func TestComposeRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{"": "JSON", "{": "JSON", "{}": "no e-mail", `{"event_type":"order.shipped"}`: "order.shipped"} {
		if _, err := email.Compose(publish.Message{Body: []byte(payload)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", payload, err, want)
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
		if got := email.FormatPrice(of.minor, of.currency); got != want {
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
		if got := email.SingleLine(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
