package httpapi

import (
	"context"
	"net/http"

	"example.com/transactional-outbox/order-service/internal/order"
)

type productJSON struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Price    int64  `json:"unit_price"` // minor units of currency
	Currency string `json:"currency"`
}

type productsAnswer struct {
	Products []productJSON `json:"products"`
}

func (a *api) listProducts(w http.ResponseWriter, r *http.Request) {
	a.withinLimits(w, r, func(ctx context.Context) error {
		catalogue, err := a.orders.Products(ctx)
		if err != nil {
			return err
		}
		writeAnswer(w, r, http.StatusOK, productsAnswer{Products: productsOf(catalogue)})
		return nil
	})
}

func productsOf(catalogue []order.Product) []productJSON {
	list := make([]productJSON, 0, len(catalogue))
	for _, p := range catalogue {
		list = append(list, productJSON{ID: p.ID, Name: p.Name, Price: p.UnitPrice.Minor(), Currency: p.UnitPrice.Currency()})
	}
	return list
}
