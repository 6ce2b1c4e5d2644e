package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/order-service/internal/order"
)

// way shows what happened to one order's events up to the broker.
func (o orders) way(ctx context.Context, r *page.Request) (page.Result, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return page.Result{}, page.Errorf(http.StatusNotFound, "This is not the id of an order.")
	}
	reveal, err := r.Reveals(ctx, "order", id.String())
	if err != nil {
		return page.Result{}, err
	}
	found, _, err := o.orders.Get(ctx, id)
	if errors.Is(err, order.ErrNoOrder) {
		return page.Result{}, page.Errorf(http.StatusNotFound, "There is no order %s.", id)
	}
	if err != nil {
		return page.Result{}, err
	}
	timeline, shown, err := o.outbox.Timeline(ctx, id.String())
	if err != nil {
		return page.Result{}, err
	}
	parts := []page.Part{fields(r, found, reveal), timeline}
	if shown < found.Version {
		parts = append(parts, page.Message{
			Title: fmt.Sprintf("%d of %d events shown.", shown, found.Version),
			Text:  "The others were published or discarded longer ago than OUTBOX_RETENTION, or they are too many for this page.",
		})
	}
	return page.Show("Order "+id.String(), append(parts, page.Message{
		Title: "What came after the broker is in notification-service.",
		Text:  "An e-mail has the id of its event: notification-service outbox show ID.",
	})...), nil
}

func fields(r *page.Request, o order.Order, reveal bool) page.Fields {
	personal := func(text string) page.Value { return page.Value{Text: text, Hidden: !reveal} }
	fields := page.Fields{
		{Name: "Status", Value: page.Text(string(o.Status))},
		{Name: "Version", Value: page.Text(fmt.Sprint(o.Version))},
		{Name: "Product", Value: page.Code(o.ProductID)},
		{Name: "Quantity", Value: page.Text(fmt.Sprint(o.Quantity))},
		{Name: "Amount", Value: page.Text(fmt.Sprintf("%d %s, in minor units", o.Amount.Minor(), o.Amount.Currency()))},
		{Name: "Placed", Value: page.Moment(o.CreatedAt)},
		{Name: "Customer", Value: personal(o.CustomerID.String())},
		{Name: "E-mail", Value: personal(o.CustomerEmail)},
	}
	if link := r.RevealLink(); !reveal && link != "" {
		fields = append(fields, page.Field{Name: "Personal data", Value: page.Value{Text: "show it", To: link}})
	}
	return fields
}
