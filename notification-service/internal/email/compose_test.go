package email_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"example.com/transactional-outbox/notification-service/internal/email"
	"example.com/transactional-outbox/notification-service/internal/mailer"
	"example.com/transactional-outbox/outbox/publish"
)

func compose(t *testing.T, o email.Order) mailer.Email {
	t.Helper()
	payload, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := email.Compose(publish.Message{Body: payload})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

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
