package settings_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/settings"
)

const repository = "../.."

// TestWhatIsPublishedIsRefused holds the list of passwords against the files that Compose
// gives to the servers.
func TestWhatIsPublishedIsRefused(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(repository + "/secrets/*-*")
	if err != nil || len(files) < 8 {
		t.Fatalf("the files are %v, error %v", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		secret := strings.TrimSpace(string(content))
		switch {
		case strings.HasPrefix(secret, "amqp"):
			refuses(t, file, settings.Shared{DatabaseURL: database, AMQPURL: settings.Secret(secret)})
		case strings.HasPrefix(secret, "postgres:"):
			refuses(t, file, settings.Shared{DatabaseURL: settings.Secret(secret), AMQPURL: broker})
		default: // the password of a superuser
			refuses(t, file, settings.Shared{DatabaseURL: settings.Secret("postgres://postgres:" + secret + "@db/x"), AMQPURL: broker})
		}
	}
}

func refuses(t *testing.T, file string, shared settings.Shared) {
	t.Helper()
	shared.AppEnv = "production"
	if errs := shared.Check(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "published with this repository") {
		t.Errorf("%s is a secret that anybody knows, and the services say: %v", file, errs)
	}
}

// TestTheBrokersPasswordsAreThePublishedOnes finds a hash that belongs to no password which
// the services refuse.
func TestTheBrokersPasswordsAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(repository + "/rabbitmq/definitions.json")
	if err != nil {
		t.Fatal(err)
	}
	var definitions struct {
		Users []struct {
			Name string
			Hash []byte `json:"password_hash"`
		}
	}
	if err := json.Unmarshal(content, &definitions); err != nil {
		t.Fatal(err)
	}
	for _, user := range definitions.Users {
		salt, password := user.Hash[:4], []byte(user.Name)
		sum := sha256.Sum256(slices.Concat(salt, password))
		if !bytes.Equal(user.Hash[4:], sum[:]) {
			t.Errorf("the hash of %s is %s, and not that of its name", user.Name, base64.StdEncoding.EncodeToString(user.Hash))
		}
		refuses(t, user.Name, settings.Shared{DatabaseURL: database, AMQPURL: settings.Secret("amqp://x:" + user.Name + "@mq/")})
	}
	if len(definitions.Users) != 3 {
		t.Errorf("%d users", len(definitions.Users))
	}
}
