package order

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// row is an order in its table.
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
	CreatedAt     time.Time
}

func (r row) order() Order {
	return Order{
		ID: r.ID, Version: r.Version, CustomerID: r.CustomerID, CustomerEmail: r.CustomerEmail,
		ProductID: r.ProductID, Quantity: r.Quantity, Amount: NewMoney(r.Amount, r.Currency),
		Status: r.Status, CreatedAt: r.CreatedAt.UTC(),
	}
}

// insertSQL leaves created_at to its default, now(). [findProduct] has returned the same time,
// because now() is constant within a transaction.
const insertSQL = `
INSERT INTO orders (id, version, customer_id, customer_email, product_id, quantity, amount, currency, status)
VALUES (@id, @version, @customer, @email, @product, @quantity, @amount, @currency, @status)`

// insert is unexported, so that only Place can create orders. Place also appends the event.
func insert(tx *postgres.Tx, o Order) error {
	return tx.Write("inserting the order", insertSQL, postgres.Args{
		"id": o.ID, "version": o.Version, "customer": o.CustomerID, "email": o.CustomerEmail,
		"product": o.ProductID, "quantity": o.Quantity,
		"amount": o.Amount.Minor(), "currency": o.Amount.Currency(), "status": o.Status,
	})
}

const findSQL = `
SELECT id, version, customer_id, customer_email, product_id, quantity, amount, currency, status, created_at
FROM orders WHERE id = @id`

func find(ctx context.Context, tx *postgres.Tx, id uuid.UUID) (Order, error) {
	switch r, err := postgres.ReadOne(ctx, tx, findSQL, postgres.Args{"id": id}, pgx.RowToStructByName[row]); {
	case errors.Is(err, sql.ErrNoRows):
		return Order{}, ErrNoOrder
	case err != nil:
		return Order{}, fmt.Errorf("reading order %s: %w", id, err)
	default:
		return r.order(), nil
	}
}

// findWithEvents waits for the server once: both queries are sent together.
func findWithEvents(ctx context.Context, tx *postgres.Tx, id uuid.UUID) (Order, []outbox.Event, error) {
	var found []row
	err := postgres.Collect(tx, &found, "reading order "+id.String(), findSQL, postgres.Args{"id": id}, pgx.RowToStructByName[row])
	if err != nil {
		return Order{}, nil, err
	}
	events, err := outbox.History(ctx, tx, Aggregate, id)
	switch {
	case err != nil:
		return Order{}, nil, err
	case len(found) == 0:
		return Order{}, nil, ErrNoOrder
	}
	return found[0].order(), events, nil
}

// updateStatusSQL is one statement. Of two concurrent changes, the second waits for the first
// and then finds no pending order.
const updateStatusSQL = `
UPDATE orders SET status = @status, version = version + 1
WHERE id = @id AND status = 'pending'
RETURNING id, version, customer_id, customer_email, product_id, quantity, amount, currency, status, created_at,
          now() AS changed_at`

type changedRow struct {
	row
	ChangedAt time.Time
}

// updateStatus changes the status of a pending order. It returns the time of the change by the
// database's clock.
func updateStatus(ctx context.Context, tx *postgres.Tx, id uuid.UUID, status Status) (Order, time.Time, error) {
	changed, err := postgres.ReadOne(ctx, tx, updateStatusSQL, postgres.Args{"id": id, "status": status}, pgx.RowToStructByName[changedRow])
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Order{}, time.Time{}, notPending(ctx, tx, id)
	case err != nil:
		return Order{}, time.Time{}, fmt.Errorf("changing order %s: %w", id, err)
	}
	return changed.order(), changed.ChangedAt, nil
}

func notPending(ctx context.Context, tx *postgres.Tx, id uuid.UUID) error {
	o, err := find(ctx, tx, id)
	if err != nil {
		return err
	}
	return &StatusError{Status: o.Status}
}

type productRow struct {
	ID        string
	Name      string
	UnitPrice int64
	Currency  string
}

// TableName is the name for gorm.
func (productRow) TableName() string { return "products" }

func (r productRow) product() Product {
	return Product{ID: r.ID, Name: r.Name, UnitPrice: NewMoney(r.UnitPrice, r.Currency)}
}

const findProductSQL = `
SELECT id, name, unit_price, currency, now() FROM products WHERE id = @id`

type pricedRow struct {
	productRow
	Now time.Time
}

// findProduct returns a product and the database's now().
func findProduct(ctx context.Context, tx *postgres.Tx, id string) (Product, time.Time, error) {
	r, err := postgres.ReadOne(ctx, tx, findProductSQL, postgres.Args{"id": id}, pgx.RowToStructByName[pricedRow])
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Product{}, time.Time{}, ErrNoProduct
	case err != nil:
		return Product{}, time.Time{}, fmt.Errorf("reading product %s: %w", id, err)
	}
	return r.product(), r.Now, nil
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
