package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/settings"
)

const aHash = "$2y$10$dqQwzEDK9kmVhkGkuaV.TewwPKkwWIqsKIvcZ4ZAuHbGMNsY/HJX." // as htpasswd -nB writes it

// TestTheUsersOfThePage are read from the file that Prometheus' users have, with its other settings
// or without. Errors name the user, and show no hash.
func TestTheUsersOfThePage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ file, wrong string }{
		"two users":      {"basic_auth_users:\n  ann: " + aHash + "\n  \"b:n\": " + aHash + "\n", ""},
		"other settings": {"tls_server_config: {cert_file: x}\nbasic_auth_users: {ann: '" + aHash + "'}\n", ""},
		"no hash":        {"basic_auth_users: {ann: secret}\n", `hash of "ann" is not of bcrypt`},
		"nobody":         {"basic_auth_users: {}\n", "needs basic_auth_users"},
		"an empty file":  {"", "needs basic_auth_users"},
		"no YAML":        {"ann:" + aHash + ":\n\t-", "needs basic_auth_users"},
		"a slow hash":    {"basic_auth_users: {ann: '" + strings.Replace(aHash, "$10$", "$16$", 1) + "'}\n", "cost is above 12"},
	} {
		path := filepath.Join(t.TempDir(), "users.yml")
		if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
			t.Fatal(err)
		}
		users, err := settings.Page{PageUsersFile: path}.Users()
		if (err == nil) != (test.wrong == "") || (users["ann"] == aHash) != (err == nil) {
			t.Errorf("%s: %v, error %v", name, users, err)
		}
		if err != nil && (!strings.Contains(err.Error(), test.wrong) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "$2y$")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
