package inbox_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/notification-service/internal/inbox"
)

func TestRecentMessagesAreCounted(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.do(func(tx pgx.Tx) error {
		return postgres.Write(t.Context(), tx, "", `INSERT INTO processed_messages (message_id, processed_at)
			SELECT gen_random_uuid(), now() - age * interval '1 second' FROM unnest(ARRAY[1, 2, 60, 61, 62, 4000]) age`, nil)
	})
	for limit, want := range map[int]inbox.Recent{100: {Processed: 5, Lately: 2}, 3: {Processed: 3, Lately: 2}, 1: {Processed: 1, Lately: 1}} {
		got, err := inbox.CountRecent(t.Context(), b.db, time.Hour, 10*time.Second, limit)
		if err != nil || got != want {
			t.Errorf("limit %d: got %+v, want %+v, error %v", limit, got, want, err)
		}
	}
}
