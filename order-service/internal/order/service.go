package order

import (
	"context"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// Service places orders, settles them, and looks them up.
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
		return tell(ctx, tx, keyCreated, placed, placed.CreatedAt)
	})
	if err != nil {
		return Order{}, err
	}
	s.committed()
	return placed, nil
}

// Confirm commits that a pending order is confirmed, and the event that tells of it.
// For an order that is not pending it returns a [*StatusError].
func (s *Service) Confirm(ctx context.Context, id uuid.UUID) (Order, error) {
	return s.settle(ctx, id, Confirmed, keyConfirmed)
}

// Cancel commits that a pending order is cancelled, and the event that tells of it.
// For an order that is not pending it returns a [*StatusError].
func (s *Service) Cancel(ctx context.Context, id uuid.UUID) (Order, error) {
	return s.settle(ctx, id, Cancelled, keyCancelled)
}

func (s *Service) settle(ctx context.Context, id uuid.UUID, status Status, key string) (settled Order, err error) {
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		var at time.Time
		if settled, at, err = change(ctx, tx, id, status); err != nil {
			return err
		}
		return tell(ctx, tx, key, settled, at)
	})
	if err != nil {
		return Order{}, err
	}
	s.committed()
	return settled, nil
}

// tell appends the event of what just became of o.
func tell(ctx context.Context, tx *postgres.Tx, key string, o Order, at time.Time) error {
	m, err := event(key, o, at)
	if err != nil {
		return err
	}
	return outbox.Append(ctx, tx, m)
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
