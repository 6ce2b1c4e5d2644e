package servicelog_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/test/servicelog"
)

func TestFindReturnsTheFirstLineSinceATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	const log = `not JSON
{"time":"2026-01-01T10:00:00Z","msg":"taking orders","address":"127.0.0.1:1"}
{"time":"2026-01-01T11:00:00Z","msg":"taking orders","address":"127.0.0.1:2"}
`
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, since := range map[string]string{"127.0.0.1:1": "2026-01-01T10:00:00Z", "127.0.0.1:2": "2026-01-01T10:00:01Z"} {
		at, err := time.Parse(time.RFC3339, since)
		if err != nil {
			t.Fatal(err)
		}
		if l, err := servicelog.Find(path, "taking orders", at); err != nil || l.Address != want {
			t.Errorf("since %s: %+v, %v; want the address %s", since, l, err, want)
		}
	}
	if l, err := servicelog.Find(path, "taking messages", time.Time{}); err == nil {
		t.Errorf("found %+v", l)
	}
}

// TestTheServicesLogEachMessage fails when a message is changed in the services only.
func TestTheServicesLogEachMessage(t *testing.T) {
	t.Parallel()
	const root = "../.."
	missing := map[string]bool{
		servicelog.TakingOrders: true, servicelog.TakingMessages: true, servicelog.ConnectedToBroker: true, servicelog.Listening: true,
		servicelog.MessagePublished: true, servicelog.EmailLogged: true,
	}
	for _, folder := range []string{"order-service", "notification-service", "internal", "outbox"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for message := range missing {
				if strings.Contains(string(source), strconv.Quote(message)) {
					delete(missing, message)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for message := range missing {
		t.Errorf("no service logs %q", message)
	}
}
