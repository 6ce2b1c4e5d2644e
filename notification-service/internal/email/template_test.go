package email_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/transactional-outbox/notification-service/internal/email"
)

var update = flag.Bool("update", false, "write the golden files in testdata")

// TestTheEmailsAreTheGoldenFiles compares the e-mails of all events with the golden files.
func TestTheEmailsAreTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for _, topic := range email.Topics {
		m := compose(t, contractEvent(t, topic))
		golden(t, topic+".txt", m.Text)
		golden(t, topic+".html", m.HTML)
	}
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
	html := strings.ToLower(compose(t, contractEvent(t, email.OrderCreated)).HTML)
	for _, loads := range []string{"http:", "https:", "src=", "url(", "<link", "<script", "<style", "@import"} {
		if strings.Contains(html, loads) {
			t.Errorf("the HTML has %s", loads)
		}
	}
}
