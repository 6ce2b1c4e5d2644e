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
	"time"

	"example.com/transactional-outbox/internal/settings"
)

const repository = "../.."

// TestPublishedPasswordsAreRefused compares the list of passwords with the secrets that Compose
// gives to the servers.
func TestPublishedPasswordsAreRefused(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(repository + "/deploy/secrets/*-*")
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
			wantRefused(t, file, settings.Shared{AuditRetention: 8760 * time.Hour, DatabaseURL: database, AMQPURL: settings.Secret(secret)})
		case strings.HasPrefix(secret, "postgres:"):
			wantRefused(t, file, settings.Shared{AuditRetention: 8760 * time.Hour, DatabaseURL: settings.Secret(secret), AMQPURL: broker})
		default: // the password of a superuser
			wantRefused(t, file, settings.Shared{AuditRetention: 8760 * time.Hour, DatabaseURL: settings.Secret("postgres://postgres:" + secret + "@db/x"), AMQPURL: broker})
		}
	}
}

func wantRefused(t *testing.T, file string, shared settings.Shared) {
	t.Helper()
	shared.AppEnv = "production"
	if errs := shared.Check(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "published with this repository") {
		t.Errorf("the secret in %s is published, but the services return: %v", file, errs)
	}
}

// TestTheBrokersPasswordsAreThePublishedOnes checks that each password hash of the broker is that
// of a password that the services refuse.
func TestTheBrokersPasswordsAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(repository + "/deploy/rabbitmq/definitions.json")
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
			t.Errorf("the hash of %s is %s, want the hash of its name", user.Name, base64.StdEncoding.EncodeToString(user.Hash))
		}
		wantRefused(t, user.Name, settings.Shared{AuditRetention: 8760 * time.Hour, DatabaseURL: database, AMQPURL: settings.Secret("amqp://x:" + user.Name + "@mq/")})
	}
	if len(definitions.Users) != 3 {
		t.Errorf("%d users", len(definitions.Users))
	}
}
