// Package outsidetx does not compile: each function tries to append an event
// without a transaction that postgres.DB.InTx began. The test of package outbox
// builds it, and checks that the compiler refuses each marked line for the given reason.
package outsidetx

import (
	"context"

	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

func withThePool(ctx context.Context, db *postgres.DB, m outbox.Message) error {
	return outbox.Append(ctx, db, m) // refused: cannot use db
}

func withGorm(ctx context.Context, db *gorm.DB, m outbox.Message) error {
	return outbox.Append(ctx, db, m) // refused: cannot use db
}

func withAForgedTx(ctx context.Context, db *gorm.DB, m outbox.Message) error {
	tx := postgres.Tx{gorm: db} // refused: unexported
	return outbox.Append(ctx, &tx, m)
}

func withAConversion(ctx context.Context, db *gorm.DB, m outbox.Message) error {
	return outbox.Append(ctx, (*postgres.Tx)(db), m) // refused: cannot convert
}

func writingWithoutATx(ctx context.Context, db *postgres.DB) {
	db.Gorm(ctx).Exec("DELETE FROM outbox_events") // refused: undefined
}
