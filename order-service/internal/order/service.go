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
// commit can be lost. Whoever then repeats r with the same idempotency key gets the
// order that is there, or a new one, and never two. With the key of another request it
// gets [ErrKeyReused].
func (s *Service) Place(ctx context.Context, r Request) (Order, error) {
	var placed Order
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		var err error
		placed, err = placeIn(ctx, tx, r)
		return err
	})
	if err != nil {
		return Order{}, err
	}
	s.committed()
	return placed, nil
}

// placeIn waits for the server once, or twice with a key: the order and its event go
// out with the commit.
func placeIn(ctx context.Context, tx *postgres.Tx, r Request) (Order, error) {
	product, now, err := offered(ctx, tx, r.ProductID)
	if err != nil {
		return Order{}, err
	}
	placed, err := place(r, product, now)
	if err != nil {
		return Order{}, err
	}
	if r.IdempotencyKey != "" {
		if before, again, err := remember(ctx, tx, r, placed.ID); err != nil || again {
			return before, err
		}
	}
	if err := insert(tx, placed); err != nil {
		return Order{}, err
	}
	return placed, tell(ctx, tx, keyCreated, placed, now)
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
		found, events, err = findWithEvents(ctx, tx, id)
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
