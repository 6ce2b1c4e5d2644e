package order

import (
	"context"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// Service places, confirms, cancels and finds orders.
type Service struct {
	db        *postgres.DB
	committed func()
}

// NewService returns the orders in db. It calls committed after each commit of an
// event; committed must not block.
func NewService(db *postgres.DB, committed func()) *Service {
	return &Service{db: db, committed: committed}
}

// Place commits a new order and its event in one transaction. After a crash, an error or a
// cancelled ctx, both exist or neither.
//
// After an error of the database the order may exist or not, because the reply to a commit can
// be lost. A client that then repeats r with the same idempotency key gets the existing order,
// or a new one, and never two. With a key that was used for another request, Place returns
// [ErrKeyReused].
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

// placeIn waits for the server once, or twice with a key. The inserts of the order and its event
// are sent together with the commit.
func placeIn(ctx context.Context, tx *postgres.Tx, r Request) (Order, error) {
	product, now, err := findProduct(ctx, tx, r.ProductID)
	if err != nil {
		return Order{}, err
	}
	placed, err := place(r, product, now)
	if err != nil {
		return Order{}, err
	}
	if r.IdempotencyKey != "" {
		if earlier, found, err := insertKey(ctx, tx, r, placed.ID); err != nil || found {
			return earlier, err
		}
	}
	if err := insert(tx, placed); err != nil {
		return Order{}, err
	}
	return placed, appendEvent(ctx, tx, keyCreated, placed, now)
}

// Confirm commits that a pending order is confirmed, and its event. For an order that is
// not pending it returns a [*StatusError].
func (s *Service) Confirm(ctx context.Context, id uuid.UUID) (Order, error) {
	return s.changeStatus(ctx, id, Confirmed, keyConfirmed)
}

// Cancel commits that a pending order is cancelled, and its event. For an order that is
// not pending it returns a [*StatusError].
func (s *Service) Cancel(ctx context.Context, id uuid.UUID) (Order, error) {
	return s.changeStatus(ctx, id, Cancelled, keyCancelled)
}

func (s *Service) changeStatus(ctx context.Context, id uuid.UUID, status Status, key string) (changed Order, err error) {
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		var at time.Time
		if changed, at, err = updateStatus(ctx, tx, id, status); err != nil {
			return err
		}
		return appendEvent(ctx, tx, key, changed, at)
	})
	if err != nil {
		return Order{}, err
	}
	s.committed()
	return changed, nil
}

// appendEvent appends the event about the change of o.
func appendEvent(ctx context.Context, tx *postgres.Tx, key string, o Order, at time.Time) error {
	m, err := event(key, o, at)
	if err != nil {
		return err
	}
	return outbox.Append(ctx, tx, m)
}

// Get returns an order and its events, from one snapshot.
func (s *Service) Get(ctx context.Context, id uuid.UUID) (found Order, events []outbox.Event, err error) {
	err = s.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		if err = outbox.KeepPartitions(tx); err == nil {
			found, events, err = findWithEvents(ctx, tx, id)
		}
		return err
	})
	return found, events, err
}

// Products returns the catalogue, ordered by id.
func (s *Service) Products(ctx context.Context) (catalogue []Product, err error) {
	err = s.db.InSnapshot(ctx, func(tx *postgres.Tx) error {
		catalogue, err = products(ctx, tx)
		return err
	})
	return catalogue, err
}
