package httpapi

import (
	"context"
	"net/http"
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
	ctx, cancel := context.WithTimeout(r.Context(), maxDuration)
	defer cancel()
	catalogue, err := a.orders.Products(ctx)
	if err != nil {
		write(w, r, problemOf(r, err))
		return
	}
	list := make([]productJSON, 0, len(catalogue))
	for _, p := range catalogue {
		list = append(list, productJSON{ID: p.ID, Name: p.Name, Price: p.UnitPrice.Minor(), Currency: p.UnitPrice.Currency()})
	}
	answer(w, r, http.StatusOK, productsAnswer{Products: list})
}
