package inbox

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// recordSQL waits for another transaction that is recording the same id, and
// inserts nothing when that one commits.
const recordSQL = `INSERT INTO processed_messages (message_id) VALUES (@id) ON CONFLICT (message_id) DO NOTHING`

// Record notes in tx that the message is being processed, and reports whether this
// is the first time. When it is, the effect belongs into the same tx; when it is
// not, the effect is already committed.
func Record(ctx context.Context, tx *postgres.Tx, messageID uuid.UUID) (first bool, err error) {
	result := tx.Gorm(ctx).Exec(recordSQL, map[string]any{"id": messageID})
	if result.Error != nil {
		return false, fmt.Errorf("recording message %s: %w", messageID, result.Error)
	}
	return result.RowsAffected == 1, nil
}
