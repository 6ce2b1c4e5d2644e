package page

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// detail shows one event, whatever its status is.
func (e events) detail(ctx context.Context, r *page.Request) (page.Result, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return page.Result{}, page.Errorf(http.StatusNotFound, "This is not the id of an event. The list has links with the ids.")
	}
	reveal, err := r.Reveals(ctx, "event", id.String())
	if err != nil {
		return page.Result{}, err
	}
	d, err := e.outbox.Show(ctx, id)
	if errors.Is(err, outbox.ErrNoEvent) {
		return page.Result{}, page.Errorf(http.StatusNotFound, "There is no event %s. It was never committed, or it was published and is longer ago than OUTBOX_RETENTION.", id)
	}
	if err != nil {
		return page.Result{}, err
	}
	parts := []page.Part{e.properties(d)}
	if d.Status == "failed" && r.User.May(page.Operate) {
		parts = append(parts, page.Buttons{
			Title: "Decide", Post: "/failed/preview", Actions: actions, Hidden: []page.Hidden{{Name: "id", Value: id.String()}},
		})
	}
	parts = append(parts, page.Heading{Text: "The message", Note: "What the relay publishes. Its body is the payload below."}, e.headers(d), payload(r, d, reveal))
	return page.Show("Event "+d.EventKey, parts...), nil
}

var levels = map[string]page.Level{"published": page.OK, "failed": page.Bad, "discarded": page.Warn}

func (e events) properties(d outbox.Detail) page.Fields {
	fields := page.Fields{
		{Name: "Event", Value: page.Code(d.ID.String())},
		{Name: "Status", Value: page.Value{Text: d.Status, Level: levels[d.Status]}},
		{Name: "Key", Value: page.Code(d.EventKey)},
		{Name: "Order", Value: page.CodeLink(d.AggregateID.String(), "/orders/"+d.AggregateID.String())},
		{Name: "Version", Value: page.Text(fmt.Sprint(d.AggregateVersion))},
		{Name: "Attempts", Value: page.Text(fmt.Sprint(d.RetryCount))},
		{Name: "Reason", Value: page.Code(valueOrEmpty(d.FailureCode))},
		{Name: "What the broker said", Value: page.Text(valueOrEmpty(d.FailureReason))},
		{Name: "Created", Value: page.Moment(d.CreatedAt)},
	}
	if d.FailedAt != nil {
		fields = append(fields, page.Field{Name: "Failed", Value: page.Moment(*d.FailedAt)})
	}
	if d.PublishedAt != nil {
		fields = append(fields, page.Field{Name: "Published", Value: page.Moment(*d.PublishedAt)})
	}
	for _, older := range d.BlockedBy {
		fields = append(fields, page.Field{Name: "Waits for", Value: page.CodeLink(
			fmt.Sprintf("%s (version %d, %s)", older.ID, older.AggregateVersion, older.Status), "/failed/"+older.ID.String())})
	}
	if d.Waiting > 0 {
		fields = append(fields, page.Field{Name: "Holds back", Value: page.Text(countNoun(d.Waiting) + " of its order")})
	}
	fields = slices.DeleteFunc(fields, func(f page.Field) bool { return f.Value.Text == "" && f.Value.Time.IsZero() })
	return append(fields, e.traceField(d.Traceparent)...)
}

// headers are those of the message that the relay publishes.
func (e events) headers(d outbox.Detail) page.Fields {
	m := e.message(outbox.Claimed{ID: d.ID, AggregateID: d.AggregateID, EventKey: d.EventKey, Traceparent: d.Traceparent, CreatedAt: d.CreatedAt})
	fields := page.Fields{
		{Name: "message_id", Value: page.Code(m.ID)},
		{Name: "exchange", Value: page.Code(m.Destination)},
		{Name: "routing key", Value: page.Code(m.Key)},
		{Name: "type", Value: page.Code(m.Key)},
		{Name: "app_id", Value: page.Code(m.AppID)},
		{Name: "content_type", Value: page.Code(m.ContentType)},
		{Name: "timestamp", Value: page.Moment(m.Timestamp)},
		{Name: "body", Value: page.Text(fmt.Sprintf("%d bytes", len(d.Payload)))},
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		fields = append(fields, page.Field{Name: "header " + name, Value: page.Code(fmt.Sprint(m.Headers[name]))})
	}
	return fields
}

// payload hides all of it, because this package does not know which fields are personal.
func payload(r *page.Request, d outbox.Detail, reveal bool) page.Block {
	block := page.Block{Title: "Payload", Hidden: !reveal, Reveal: r.RevealLink()}
	if reveal {
		if err := d.Payload.Indent(); err == nil {
			block.Text = string(d.Payload)
		} else {
			block.Text = "The payload cannot be read: " + err.Error()
		}
	}
	return block
}
