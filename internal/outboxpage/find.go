package outboxpage

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
	"example.com/transactional-outbox/outbox/operate"
)

// searchedEvents is how many events the search for a trace reads at most.
const searchedEvents = 100_000

// Find leads to what the field "Find" names: an order, an event, a decision or a trace. IsOrder
// says whether an id is that of an order.
func (p Pages) Find(isOrder func(context.Context, uuid.UUID) (bool, error)) func(context.Context, *page.Request) (page.Result, error) {
	return func(ctx context.Context, r *page.Request) (page.Result, error) {
		query := strings.ToLower(strings.TrimSpace(r.URL.Query().Get("q")))
		if query == "" {
			return page.Result{}, page.Errorf(http.StatusUnprocessableEntity, "The field “Find” is empty. Write the id of an order, a message or a trace.")
		}
		path, err := p.locate(ctx, query, isOrder)
		if err != nil {
			return page.Result{}, err
		}
		if path != "" {
			return page.Redirect(path), nil
		}
		result := page.Show("Nothing is found", p.nothing(query))
		result.Status = http.StatusNotFound
		return result, nil
	}
}

// locate returns the path of what the query names, or "".
func (p Pages) locate(ctx context.Context, query string, isOrder func(context.Context, uuid.UUID) (bool, error)) (path string, err error) {
	if id, err := uuid.Parse(query); err == nil {
		is, err := isOrder(ctx, id)
		if is || err != nil {
			return "/orders/" + id.String(), err
		}
		if path, err := p.locateID(ctx, id); path != "" || err != nil {
			return path, err
		}
	}
	trace := cmp.Or(page.TraceOf(query), query)
	if !page.IsTraceID(trace) {
		return "", nil
	}
	found, err := p.operator.OfTrace(ctx, trace, searchedEvents)
	if errors.Is(err, operate.ErrNoEvent) {
		return "", nil
	}
	return pathOf(found), err
}

// locateID looks for an event and for a decision.
func (p Pages) locateID(ctx context.Context, id uuid.UUID) (path string, err error) {
	found, err := p.operator.Get(ctx, id)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return pathOf(found[0]), nil
	}
	_, err = p.log.Get(ctx, id)
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
	if found.Aggregate == aggregate {
		return "/orders/" + url.PathEscape(found.AggregateID)
	}
	return "/failed/" + found.ID.String()
}

// nothing says what was looked for.
func (p Pages) nothing(query string) page.Message {
	return page.Message{
		Level: page.Warn, Title: "Nothing has this id.",
		Text: fmt.Sprintf("Looked for “%s” as the id of an order, of an event (the message id) or of a decision, "+
			"and as a trace id among the newest %d events. A finished event is kept for OUTBOX_RETENTION.", page.Shorten(query), searchedEvents),
	}
}
