package page

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
)

const (
	maxQuery = 255 // a message id is not longer
	maxFound = 20
)

// find looks for an order, a message or a trace.
func (l letters) find(ctx context.Context, r *page.Request) (page.Result, error) {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	switch {
	case query == "":
		return page.Result{}, page.Errorf(http.StatusUnprocessableEntity, "The field “Find” is empty. Write the id of an order, a message or a trace.")
	case len(query) > maxQuery:
		return page.Result{}, page.Errorf(http.StatusUnprocessableEntity, "The field “Find” has %d bytes. An id has at most %d.", len(query), maxQuery)
	}
	if id, err := uuid.Parse(query); err == nil && !page.IsTraceID(query) {
		query = id.String()
		order, err := l.history.OrderOf(ctx, id)
		if err != nil {
			return page.Result{}, err
		}
		if order != uuid.Nil {
			return page.Redirect("/orders/" + order.String()), nil
		}
	}
	return l.findDead(ctx, query)
}

// findDead looks for what has arrived here only as a dead letter.
func (l letters) findDead(ctx context.Context, query string) (page.Result, error) {
	var found []deadletter.Entry
	snapshot, err := l.snapshot(ctx, listAge)
	for _, e := range snapshot.Letters {
		if e.OrderID == query {
			return page.Redirect("/orders/" + query), nil
		}
		if e.ID == query || e.TraceID == query {
			found = append(found, e)
		}
	}
	if len(found) == 1 {
		return page.Redirect("/dead/" + found[0].Key), nil
	}
	parts := []page.Part{}
	if len(found) > 0 {
		parts = append(parts, foundPart(found))
	} else {
		parts = append(parts, l.nothing(query))
	}
	if err != nil {
		parts = append(parts, page.Message{Level: page.Warn, Title: "The dead letters were not searched.", Text: problem(err)})
	}
	result := page.Show("Find "+query, parts...)
	if len(found) == 0 {
		result.Status = http.StatusNotFound
	}
	return result, nil
}

func foundPart(found []deadletter.Entry) page.Message {
	message := page.Message{Title: fmt.Sprintf("%d dead letters have this id.", len(found))}
	for i, e := range found {
		if i == maxFound {
			message.Text = fmt.Sprintf("These are the first %d.", maxFound)
			break
		}
		message.Links = append(message.Links, page.Link{Text: e.Code + ", failed " + failedAt(e.FailedAt), To: "/dead/" + e.Key})
	}
	return message
}

// nothing says what was looked for, and where else it may be.
func (l letters) nothing(query string) page.Message {
	message := page.Message{
		Title: "Nothing here has this id.",
		Text: "Looked for: an order, a message that has arrived, and a dead letter. What is older than NOTIFICATION_RETENTION is deleted. " +
			"This service does not store the ids of traces: order-service does.",
	}
	if other := l.page.PeerPage("/find?q=" + url.QueryEscape(query)); other != "" {
		message.Links = append(message.Links, page.Link{Text: "Look in order-service", To: other})
	}
	if trace := l.page.Trace(query); trace != "" && page.IsTraceID(query) {
		message.Links = append(message.Links, page.Link{Text: "Look in Jaeger", To: trace})
	}
	return message
}
