package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/outbox/operate"
)

// searchedEvents is how many events the search for a trace reads at most.
const searchedEvents = 100_000

// find leads to the order of an order id, a message id or a trace id, or to a decision.
func (e events) find(ctx context.Context, r *page.Request) (page.Result, error) {
	query := strings.ToLower(strings.TrimSpace(r.URL.Query().Get("q")))
	if query == "" {
		return page.Result{}, page.Errorf(http.StatusUnprocessableEntity, "The field “Find” is empty. Write the id of an order, a message or a trace.")
	}
	path, err := e.locate(ctx, query)
	if err != nil {
		return page.Result{}, err
	}
	if path != "" {
		return page.Redirect(path), nil
	}
	result := page.Show("Nothing is found", e.nothing(query))
	result.Status = http.StatusNotFound
	return result, nil
}

// locate returns the path of what the query names, or "".
func (e events) locate(ctx context.Context, query string) (path string, err error) {
	if id, err := uuid.Parse(query); err == nil {
		if path, err := e.locateID(ctx, id); path != "" || err != nil {
			return path, err
		}
	}
	trace := cmp.Or(page.TraceOf(query), query)
	if !page.IsTraceID(trace) {
		return "", nil
	}
	found, err := e.operator.OfTrace(ctx, trace, searchedEvents)
	if errors.Is(err, operate.ErrNoEvent) {
		return "", nil
	}
	return pathOf(found), err
}

func (e events) locateID(ctx context.Context, id uuid.UUID) (path string, err error) {
	_, _, err = e.orders.Get(ctx, id)
	if err == nil {
		return "/orders/" + id.String(), nil
	}
	if !errors.Is(err, order.ErrNoOrder) {
		return "", err
	}
	found, err := e.operator.Get(ctx, id)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return pathOf(found[0]), nil
	}
	_, err = e.log.Get(ctx, id)
	switch {
	case err == nil:
		return "/audit/" + id.String(), nil
	case errors.Is(err, operate.ErrNoDecision):
		return "", nil
	default:
		return "", err
	}
}

// pathOf leads to the order of an event, or to the event if it is about no order.
func pathOf(found operate.Event) string {
	if found.Aggregate == order.Aggregate {
		return "/orders/" + url.PathEscape(found.AggregateID)
	}
	return "/failed/" + found.ID.String()
}

// nothing says what was looked for.
func (e events) nothing(query string) page.Message {
	m := page.Message{
		Level: page.Warn, Title: "Nothing has this id.",
		Text: fmt.Sprintf("Looked for “%s” as the id of an order, of an event (the message id) or of a decision, "+
			"and as a trace id among the newest %d events. A published event is kept for OUTBOX_RETENTION.", page.Shorten(query), searchedEvents),
	}
	if to := e.page.PeerPage("/find?q=" + url.QueryEscape(query)); to != "" {
		m.Links = []page.Link{{Text: "Look in notification-service", To: to}}
	}
	return m
}
