package main

import (
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/outboxcli/dlq"
	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/notification-service/migrations"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/test/servers"
)

// TestADecisionNeedsTheDatabase with the right schema. Otherwise the error says what to do.
func TestADecisionNeedsTheDatabase(t *testing.T) {
	t.Parallel()
	proxy, away := servers.ProxyFor(t, servers.Database(t))
	proxy.Close()
	_, migrated := postgrestest.Migrated(t, migrations.Schema)
	for url, hint := range map[string]string{away: "DATABASE_URL", servers.Database(t): service + " migrate", migrated: ""} {
		c, used := config{Shared: settings.Shared{DatabaseURL: settings.Secret(url)}}, false
		err := c.recordDecisions(t.Context(), func(r dlq.Recorder) error {
			used = true
			_, err := r.Begin(t.Context(), operate.NewDecision("somebody", operate.CLI, "--all"), operate.Replay, []string{"A"})
			return err
		})
		if used != (hint == "") || (err == nil) != used {
			t.Errorf("with %q: used %t, error %v", hint, used, err)
		}
		if err != nil && (!strings.Contains(err.Error(), hint) || !strings.Contains(err.Error(), "nothing was changed")) {
			t.Errorf("error %v, want a hint at %q", err, hint)
		}
	}
}
