package order

import (
	"context"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/operate"
)

// Service places, confirms, cancels and finds orders.
type Service struct {
	db   *postgres.DB
	wake func()
}

// NewService returns the orders in db. It calls wake after each commit of an event, so that a relay
// publishes it at once; wake must not block.
func NewService(db *postgres.DB, wake func()) *Service {
	return &Service{db: db, wake: wake}
}

// Place commits a new order and its event in one transaction. After a crash, an error or a
// cancelled ctx, both exist or neither.
//
// After an error of the database the order may exist or not, because the reply to a commit can
// be lost. A client that then repeats r with the same idempotency key gets the existing order,
// or a new one, and never two. With a key that was used for another request, Place returns
// [ErrKeyReused].
func (s *Service) Place(ctx context.Context, r Request) (placed Order, err error) {
	err = s.db.InGorm(ctx, func(tx *gorm.DB) error {
		placed, err = placeIn(ctx, tx, r)
		return err
	})
	if err != nil {
		return Order{}, err
	}
	s.wake()
	return placed, nil
}

func placeIn(ctx context.Context, tx *gorm.DB, r Request) (Order, error) {
	product, err := findProduct(tx, r.ProductID)
	if err != nil {
		return Order{}, err
	}
	placed, err := place(r, product)
	if err != nil {
		return Order{}, err
	}
	if r.IdempotencyKey != "" {
		if earlier, found, err := insertKey(tx, r, placed.ID); err != nil || found {
			return earlier, err
		}
	}
	if err := insert(tx, &placed); err != nil {
		return Order{}, err
	}
	return placed, appendEvent(ctx, tx, topicCreated, placed, placed.CreatedAt)
}

// Confirm commits that a pending order is confirmed, and its event. For an order that is
// not pending it returns a [*StatusError].
func (s *Service) Confirm(ctx context.Context, id uuid.UUID) (Order, error) {
	return s.changeStatus(ctx, id, Confirmed, topicConfirmed)
}

// Cancel commits that a pending order is cancelled, and its event. For an order that is
// not pending it returns a [*StatusError].
func (s *Service) Cancel(ctx context.Context, id uuid.UUID) (Order, error) {
	return s.changeStatus(ctx, id, Cancelled, topicCancelled)
}

func (s *Service) changeStatus(ctx context.Context, id uuid.UUID, status Status, topic string) (changed Order, err error) {
	err = s.db.InGorm(ctx, func(tx *gorm.DB) error {
		var at time.Time
		if changed, at, err = updateStatus(tx, id, status); err != nil {
			return err
		}
		return appendEvent(ctx, tx, topic, changed, at)
	})
	if err != nil {
		return Order{}, err
	}
	s.wake()
	return changed, nil
}

// appendEvent appends the event about the change of o to the outbox, in the transaction of the
// change.
func appendEvent(ctx context.Context, tx *gorm.DB, topic string, o Order, at time.Time) error {
	e, err := event(topic, o, at)
	if err != nil {
		return err
	}
	return outbox.Append(ctx, outbox.FromGorm(tx.Statement.ConnPool), e)
}

// maxEvents is more than the events of any order.
const maxEvents = 100

// Get returns an order and its events.
func (s *Service) Get(ctx context.Context, id uuid.UUID) (found Order, events []operate.Event, err error) {
	err = s.db.InGorm(ctx, func(tx *gorm.DB) error {
		found, err = find(tx, id)
		return err
	})
	if err != nil {
		return Order{}, nil, err
	}
	events, err = operate.New(s.db.Pool()).History(ctx, Aggregate, id.String(), maxEvents)
	return found, events, err
}

// Products returns the catalogue, ordered by id.
func (s *Service) Products(ctx context.Context) (catalogue []Product, err error) {
	err = s.db.InGorm(ctx, func(tx *gorm.DB) error {
		catalogue, err = products(tx)
		return err
	})
	return catalogue, err
}
