// Package gormorders places orders with gorm, and appends their events in the same transactions.
package gormorders

import (
	"context"
	"encoding/json"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/transactional-outbox/outbox"
)

// Order is a row of the table orders.
type Order struct {
	ID      string `gorm:"primaryKey" json:"id"`
	Version int    `json:"version"`
	Status  string `json:"status"`
}

// Place saves a new order and its event, or neither.
func Place(ctx context.Context, db *gorm.DB, id string) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		o := Order{ID: id, Version: 1, Status: "created"}
		if err := tx.Create(&o).Error; err != nil {
			return err
		}
		return appendEvent(tx, o)
	})
}

// SetStatus changes an order and appends its event. It locks the order's row before it takes the
// next version from it: the order of the events rests on that lock.
func SetStatus(ctx context.Context, db *gorm.DB, id, status string) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var o Order
		if err := tx.Clauses(clause.Locking{Strength: "UPDATE"}).First(&o, "id = ?", id).Error; err != nil {
			return err
		}
		o.Version, o.Status = o.Version+1, status
		if err := tx.Save(&o).Error; err != nil {
			return err
		}
		return appendEvent(tx, o)
	})
}

// appendEvent appends in gorm's transaction. gorm has one type inside and outside a transaction, so
// the compiler cannot tell them apart: outside, Append returns an error.
func appendEvent(tx *gorm.DB, o Order) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return outbox.Append(tx.Statement.Context, outbox.FromGorm(tx.Statement.ConnPool), outbox.Event{
		Topic: "order." + o.Status, Aggregate: "order", AggregateID: o.ID, Version: o.Version, Payload: payload,
	})
}
