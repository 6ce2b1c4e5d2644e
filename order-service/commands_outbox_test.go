//nolint:paralleltest // the other tests of this package set variables of the environment
package main

import (
	"io"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/test/env/servers"
)

// TestACommandSaysWhichServerItLacks. Only republish needs the broker.
func TestACommandSaysWhichServerItLacks(t *testing.T) {
	db, migrated := postgrestest.Migrated(t, schema)
	_, err := db.Pool().Exec(t.Context(), "INSERT INTO outbox_done (id, status, retry_count) VALUES (gen_random_uuid(), 'published', 0)")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ line, url, hint string }{
		"the database is away":         {"list", "postgres://shop@127.0.0.1:1/shop", "DATABASE_URL"},
		"the database is not migrated": {"replay --all", servers.Database(t), "order-service migrate"},
		"no broker":                    {"republish --since 1h", migrated, "AMQP_URL is not set"},
		"no broker, and none needed":   {"list", migrated, ""},
	} {
		run, err := operators.Outbox(strings.Fields(test.line), io.Discard)
		if err == nil {
			err = run(t.Context(), config{Shared: settings.Shared{DatabaseURL: settings.Secret(test.url)}}.servers())
		}
		if (err == nil) != (test.hint == "") || err != nil && !strings.Contains(err.Error(), test.hint) {
			t.Errorf("%s: error %v, want %q", name, err, test.hint)
		}
	}
}
