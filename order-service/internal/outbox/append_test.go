package outbox_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// TestAppendRefusesInvalidEvents: the tables' CHECKs refuse them. The commit returns the error,
// which names the event.
func TestAppendRefusesInvalidEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, invalidate := range map[string]func(*outbox.Message){
		"a key of one word":     func(m *outbox.Message) { m.EventKey = "created" },
		"a key in capitals":     func(m *outbox.Message) { m.EventKey = "Order.Created" },
		"a key with a wildcard": func(m *outbox.Message) { m.EventKey = "order.#" },
		"a key too long":        func(m *outbox.Message) { m.EventKey = "order." + strings.Repeat("x", 123) },
		"a payload too large":   func(m *outbox.Message) { m.Payload = []byte(`"` + strings.Repeat("x", 1<<18) + `"`) },
		"a version of zero":     func(m *outbox.Message) { m.AggregateVersion = 0 },
	} {
		m := message(uuid.New(), 1)
		invalidate(&m)
		err := f.db.InTx(t.Context(), func(tx *postgres.Tx) error { return outbox.Append(t.Context(), tx, m) })
		refused, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || refused.Code != "23514" || !strings.HasPrefix(err.Error(), "appending "+m.EventKey+" to the outbox: ") {
			t.Errorf("%s: error %.200v, want that a CHECK refused it", name, err)
		}
	}
	if c := f.claim(10); len(c.Events) != 0 {
		t.Errorf("claimed %+v", c.Events)
	}
}

func TestAppendFailsAfterTheTransactionEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ended *postgres.Tx
	if err := f.db.InTx(t.Context(), func(tx *postgres.Tx) error { ended = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := outbox.Append(t.Context(), ended, message(uuid.New(), 1)); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("error %v, want %v", err, sql.ErrTxDone)
	}
}
