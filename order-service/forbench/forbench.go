// Package forbench lets test/bench time the outbox's own statements. Go allows the packages in
// internal only to order-service. Nothing in production imports this package.
package forbench

import (
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
)

// Store is the relay's side of the outbox.
type Store = outbox.Store

// Operator is the operators' side.
type Operator = outbox.Operator

// Claim is a batch of events under one lease.
type Claim = outbox.Claim

// Claimed is one of them.
type Claimed = outbox.Claimed

// Failure puts an event off.
type Failure = outbox.Failure

// RelayConfig makes a message of an event.
type RelayConfig = relay.Config

// NewStore returns the relay's side of the outbox in db.
func NewStore(db *postgres.DB) *Store { return outbox.NewStore(db) }

// NewOperator returns the operators' side of the outbox in db.
func NewOperator(db *postgres.DB) *Operator { return outbox.NewOperator(db) }
