package cli_test

import (
	"testing"

	"example.com/transactional-outbox/internal/cli"
)

func TestAddressesAreMasked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                 "",
		"no address @ all": "no address @ all",
		"ann@example.com":  "a***@example.com",
		"550 5.1.1 <o'neil@example.com>: unknown": "550 5.1.1 <o***@example.com>: unknown",
		`550 "ann b"@example.com is full`:         "550 a***@example.com is full",
		"ann.b+shop@a.example, bob@b.example":     "a***@a.example, b***@b.example",
		"élodie@example.com":                      "é***@example.com",
	} {
		if got := cli.Mask(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestAddressesInAPayloadAreMasked(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"order_id": "7", "to": "ann@example.com"}`:     `{"order_id":"7","to":"a***@example.com"}`,
		`{"event": {"customer_email": "ann at work"}}`:   `{"event":{"customer_email":"a***"}}`,
		`{"recipient":"\"ann b\"@example.com","n":1.50}`: `{"recipient":"a***@example.com","n":1.50}`,
		`{"to":"","note":"write to o'neil@example.com"}`: `{"to":"***","note":"write to o***@example.com"}`,
		`{"note":"ann\u0040example.com","to":null}`:      `{"note":"a***@example.com","to":null}`,
		`{"customer_\u0065mail":"ann"}`:                  `{"customer_email":"a***"}`,
		"to: ann@example.com":                            "to: a***@example.com",
	} {
		if got := string(cli.MaskJSON([]byte(payload))); got != want {
			t.Errorf("%s: %s, want %s", payload, got, want)
		}
	}
}
