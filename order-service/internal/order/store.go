package order

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// orderRow is an order in its table.
type orderRow struct {
	ID            uuid.UUID
	Version       int
	CustomerID    uuid.UUID
	CustomerEmail string
	ProductID     string
	Quantity      int
	Amount        int64
	Currency      string
	Status        Status
	CreatedAt     time.Time `gorm:"autoCreateTime:false;default:now()"` // the database's clock, not gorm's
}

// TableName is the name for gorm.
func (orderRow) TableName() string { return "orders" }

func rowOf(o Order) orderRow {
	return orderRow{
		ID: o.ID, Version: o.Version, CustomerID: o.CustomerID, CustomerEmail: o.CustomerEmail,
		ProductID: o.ProductID, Quantity: o.Quantity,
		Amount: o.Amount.Minor(), Currency: o.Amount.Currency(), Status: o.Status,
	}
}

func (r orderRow) order() Order {
	return Order{
		ID: r.ID, Version: r.Version, CustomerID: r.CustomerID, CustomerEmail: r.CustomerEmail,
		ProductID: r.ProductID, Quantity: r.Quantity, Amount: NewMoney(r.Amount, r.Currency),
		Status: r.Status, CreatedAt: r.CreatedAt.UTC(),
	}
}

// insert is unexported, so that only Place can create orders. It sets the time of the order by the
// database's clock.
func insert(tx *gorm.DB, o *Order) error {
	row := rowOf(*o)
	if err := tx.Create(&row).Error; err != nil {
		return fmt.Errorf("inserting the order: %w", err)
	}
	o.CreatedAt = row.CreatedAt.UTC()
	return nil
}

func find(tx *gorm.DB, id uuid.UUID) (Order, error) {
	var row orderRow
	switch err := tx.First(&row, "id = ?", id).Error; {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return Order{}, ErrNoOrder
	case err != nil:
		return Order{}, fmt.Errorf("reading order %s: %w", id, err)
	}
	return row.order(), nil
}

// updateStatus changes the status of a pending order in one statement. Of two concurrent changes,
// the second waits for the lock of the order's row, and then finds no pending order. So versions
// are handed out under that lock, and the order of the events rests on it.
func updateStatus(tx *gorm.DB, id uuid.UUID, status Status) (Order, time.Time, error) {
	var row struct {
		Order     orderRow `gorm:"embedded"`
		ChangedAt time.Time
	}
	returning := clause.Returning{Columns: []clause.Column{{Name: changedColumns, Raw: true}}}
	result := tx.Table("orders").Model(&row).Clauses(returning).Where("id = ? AND status = ?", id, Pending).
		Updates(map[string]any{"status": status, "version": gorm.Expr("version + 1")})
	switch {
	case result.Error != nil:
		return Order{}, time.Time{}, fmt.Errorf("changing order %s: %w", id, result.Error)
	case result.RowsAffected == 0:
		return Order{}, time.Time{}, notPending(tx, id)
	}
	return row.Order.order(), row.ChangedAt, nil
}

// changedColumns names each column: with "*", a new column would make postgres.DB.InGorm repeat.
const changedColumns = "id, version, customer_id, customer_email, product_id, quantity, amount, currency, status, created_at, now() AS changed_at"

func notPending(tx *gorm.DB, id uuid.UUID) error {
	o, err := find(tx, id)
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

func findProduct(tx *gorm.DB, id string) (Product, error) {
	var row productRow
	switch err := tx.First(&row, "id = ?", id).Error; {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return Product{}, ErrNoProduct
	case err != nil:
		return Product{}, fmt.Errorf("reading product %s: %w", id, err)
	}
	return row.product(), nil
}

func products(tx *gorm.DB) ([]Product, error) {
	var rows []productRow
	if err := tx.Order("id").Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("reading the catalogue: %w", err)
	}
	catalogue := make([]Product, 0, len(rows))
	for _, r := range rows {
		catalogue = append(catalogue, r.product())
	}
	return catalogue, nil
}
