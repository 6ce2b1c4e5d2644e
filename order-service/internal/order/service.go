package order

import (
	"context"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// Service places orders and looks them up.
type Service struct {
	db        *postgres.DB
	committed func()
}

// NewService returns the orders in db. It calls committed after each commit of an
// event; committed must not block.
func NewService(db *postgres.DB, committed func()) *Service {
	return &Service{db: db, committed: committed}
}

// Place commits a new order and the event that tells of it, in one transaction:
// a crash, an error or a cancelled ctx leaves both or neither.
//
// An error of the database leaves open whether the order exists: the reply to a
// commit can be lost.
func (s *Service) Place(ctx context.Context, r Request) (Order, error) {
	var placed Order
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		product, err := product(ctx, tx, r.ProductID)
		if err != nil {
			return err
		}
		if placed, err = place(r, product); err != nil {
			return err
		}
		if err := insert(ctx, tx, &placed); err != nil {
			return err
		}
		created, err := event(Created, placed, placed.CreatedAt)
		if err != nil {
			return err
		}
		return outbox.Append(ctx, tx, created)
	})
	if err != nil {
		return Order{}, err
	}
	s.committed()
	return placed, nil
}

// Get returns an order and what became of its events, as of one moment.
func (s *Service) Get(ctx context.Context, id uuid.UUID) (found Order, events []outbox.Event, err error) {
	err = s.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		if found, err = find(ctx, tx, id); err != nil {
			return err
		}
		events, err = outbox.History(ctx, tx, Aggregate, id)
		return err
	})
	return found, events, err
}

// Products returns the catalogue, by id.
func (s *Service) Products(ctx context.Context) (catalogue []Product, err error) {
	err = s.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		catalogue, err = products(ctx, tx)
		return err
	})
	return catalogue, err
}
