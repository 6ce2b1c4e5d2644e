package outboxcli

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestAddressesAreMasked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                 "",
		"no address @ all": "no address @ all",
		"550 5.1.1 <o'neil@example.com>: unknown": "550 5.1.1 <o***@example.com>: unknown",
		`550 "ann b"@example.com is full`:         "550 a***@example.com is full",
		"ann.b+shop@a.example, élo@b.example":     "a***@a.example, é***@b.example",
	} {
		if got := mask(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for payload, want := range map[string]string{
		`{"order_id":"7","to":"ann@example.com"}`:             `{"order_id":"7","to":"a***@example.com"}`,
		`{"event":{"customer_email":"ann at work"},"n":1.50}`: `{"event":{"customer_email":"a***"},"n":1.50}`,
		`{"recipient":["\"ann b\"@example.com"]}`:             `{"recipient":["a***@example.com"]}`,
		`{"to":"","note":"write to o'neil@example.com"}`:      `{"to":"***","note":"write to o***@example.com"}`,
		`{"note":"ann\u0040example.com","to":null}`:           `{"note":"a***@example.com","to":null}`,
		`{"customer_\u0065mail":"ann"}`:                       `{"customer_email":"a***"}`,
		`{"a":"@foo","b":"ann@b.example"}`:                    `{"a":"@foo","b":"a***@b.example"}`,
		`"to: ann@example.com"`:                               `"to: a***@example.com"`,
	} {
		if got := string(maskJSON(jsontext.Value(payload))); got != want {
			t.Errorf("%s: %s, want %s", payload, got, want)
		}
	}
}

// TestNoCommandPrintsAnAddress that is in a payload, in a header, or in what the mail server said.
func TestNoCommandPrintsAnAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Masked, f.Republishes = true, false
	ids := f.append("example.com")
	f.fail(1, ids...)
	f.exec("INSERT INTO outbox_topics (topic, until, pause, reason) VALUES ('example.com', now() + interval '1 minute', 1, 'refused o''neil@example.com')")
	for _, line := range []string{
		"list", "list --json", "show " + ids[0], "show --json " + ids[0], "topics", "topics --json", "replay --all --dry-run", "discard --all --json",
	} {
		out, progress, err := f.run(t.Context(), append([]string{"outbox"}, strings.Fields(line)...)...)
		if err != nil || strings.Contains(out+progress, "neil") || !strings.Contains(out, "o***@example.com") {
			t.Errorf("%s: error %v, it prints\n%s%s", line, err, out, progress)
		}
		if strings.Contains(line, "json") && !jsontext.Value(out).IsValid() {
			t.Errorf("%s prints no JSON: %s", line, out)
		}
	}
}
