package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres"
)

// row is an order in its table. gorm leaves created_at to the database: every
// time in this system comes from one clock.
type row struct {
	ID            uuid.UUID
	Version       int
	CustomerID    uuid.UUID
	CustomerEmail string
	ProductID     string
	Quantity      int
	Amount        int64
	Currency      string
	Status        Status
	CreatedAt     time.Time `gorm:"autoCreateTime:false;default:now()"`
}

// TableName is gorm's way to ask.
func (row) TableName() string { return "orders" }

func (r row) order() Order {
	return Order{
		ID: r.ID, Version: r.Version, CustomerID: r.CustomerID, CustomerEmail: r.CustomerEmail,
		ProductID: r.ProductID, Quantity: r.Quantity, Amount: NewMoney(r.Amount, r.Currency),
		Status: r.Status, CreatedAt: r.CreatedAt.UTC(),
	}
}

// insert is unexported: only Place makes orders, and Place makes their events.
func insert(ctx context.Context, tx *postgres.Tx, o *Order) error {
	r := row{
		ID: o.ID, Version: o.Version, CustomerID: o.CustomerID, CustomerEmail: o.CustomerEmail,
		ProductID: o.ProductID, Quantity: o.Quantity,
		Amount: o.Amount.Minor(), Currency: o.Amount.Currency(), Status: o.Status,
	}
	if err := tx.Gorm(ctx).Create(&r).Error; err != nil {
		return fmt.Errorf("inserting the order: %w", err)
	}
	o.CreatedAt = r.CreatedAt.UTC()
	return nil
}

func find(ctx context.Context, tx *postgres.Tx, id uuid.UUID) (Order, error) {
	var r row
	switch err := tx.Gorm(ctx).Take(&r, "id = ?", id).Error; {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return Order{}, ErrNoOrder
	case err != nil:
		return Order{}, fmt.Errorf("reading order %s: %w", id, err)
	}
	return r.order(), nil
}

// changeSQL is one statement: of two changes at once, the second waits for the
// first and then finds nothing pending.
const changeSQL = `
UPDATE orders SET status = @status, version = version + 1
WHERE id = @id AND status = 'pending'
RETURNING *, now() AS changed_at`

// change gives a pending order its last status, and returns when, by the database's
// clock.
func change(ctx context.Context, tx *postgres.Tx, id uuid.UUID, status Status) (Order, time.Time, error) {
	var changed struct {
		Row       row `gorm:"embedded"`
		ChangedAt time.Time
	}
	result := tx.Gorm(ctx).Raw(changeSQL, map[string]any{"id": id, "status": status}).Scan(&changed)
	if result.Error != nil {
		return Order{}, time.Time{}, fmt.Errorf("changing order %s: %w", id, result.Error)
	}
	if result.RowsAffected == 0 {
		o, err := find(ctx, tx, id)
		if err == nil {
			err = &StatusError{Status: o.Status}
		}
		return Order{}, time.Time{}, err
	}
	return changed.Row.order(), changed.ChangedAt, nil
}

type productRow struct {
	ID        string
	Name      string
	UnitPrice int64
	Currency  string
}

// TableName is gorm's way to ask.
func (productRow) TableName() string { return "products" }

func (r productRow) product() Product {
	return Product{ID: r.ID, Name: r.Name, UnitPrice: NewMoney(r.UnitPrice, r.Currency)}
}

func product(ctx context.Context, tx *postgres.Tx, id string) (Product, error) {
	var r productRow
	switch err := tx.Gorm(ctx).Take(&r, "id = ?", id).Error; {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return Product{}, ErrNoProduct
	case err != nil:
		return Product{}, fmt.Errorf("reading product %s: %w", id, err)
	}
	return r.product(), nil
}

func products(ctx context.Context, tx *postgres.Tx) ([]Product, error) {
	var rows []productRow
	if err := tx.Gorm(ctx).Order("id").Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("reading the catalogue: %w", err)
	}
	catalogue := make([]Product, 0, len(rows))
	for _, r := range rows {
		catalogue = append(catalogue, r.product())
	}
	return catalogue, nil
}
