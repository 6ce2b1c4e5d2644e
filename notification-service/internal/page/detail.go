package page

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/notification-service/internal/consumer"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
)

// isKey is what a key looks like.
var isKey = regexp.MustCompile(`^[0-9a-f]{32}$`)

// detail shows one dead letter.
func (l letters) detail(ctx context.Context, r *page.Request) (page.Result, error) {
	key := r.PathValue("key")
	if !isKey.MatchString(key) {
		return page.Result{}, page.Errorf(http.StatusNotFound, "This is not the key of a dead letter. The list has links with the keys.")
	}
	reveal, err := r.Reveals(ctx, "dead letter", key)
	if err != nil {
		return page.Result{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	found, err := l.reader.Detail(waiting, key)
	switch err = forUser(err); {
	case errors.Is(err, deadletter.ErrReading):
		return stillReading(), nil
	case errors.Is(err, deadletter.ErrGone):
		return page.Result{}, page.Errorf(http.StatusNotFound,
			"It is not among the first %d messages of the queue: it was replayed or discarded, or somebody else holds it at the moment.", deadletter.MaxRead)
	case err != nil:
		return page.Result{}, err
	}
	parts := []page.Part{l.properties(found, reveal)}
	if r.User.May(page.Operate) {
		parts = append(parts, page.Buttons{
			Title: "Decide", Post: "/dead/preview", Actions: actions, Hidden: []page.Hidden{{Name: fieldID, Value: key}},
		})
	}
	parts = append(parts, page.Heading{Text: "Headers"}, headers(found, reveal), body(r, found, reveal))
	return page.Show("Dead letter", parts...), nil
}

func (l letters) properties(d deadletter.Detail, reveal bool) page.Fields {
	id := page.Text("(none)")
	if d.ID != "" {
		id = page.Code(d.ID)
	}
	failed, reason := page.Text("unknown"), page.Text(d.Reason)
	if d.FailedAt != nil {
		failed = page.Moment(*d.FailedAt)
	}
	if !reveal {
		reason.Text = withoutAddresses(reason.Text)
	}
	fields := page.Fields{
		{Name: "Message", Value: id},
		{Name: "Routing key", Value: page.Code(d.RoutingKey)},
		{Name: "Code", Value: page.Code(d.Code)},
		{Name: "Reason", Value: reason},
		{Name: "Failed at", Value: failed},
		{Name: "Retries", Value: page.Text(fmt.Sprint(d.Retries))},
		{Name: "Bytes", Value: page.Text(fmt.Sprint(d.Size))},
		{Name: "Exchange", Value: page.Code(d.Exchange)},
		{Name: "Type", Value: page.Code(d.Type)},
		{Name: "Published at", Value: page.Text(d.Timestamp)},
		{Name: "Publisher", Value: page.Code(d.AppID)},
		{Name: "Content type", Value: page.Code(d.ContentType)},
		{Name: "Content encoding", Value: page.Code(d.ContentEncoding)},
		{Name: "Correlation id", Value: page.Value{Text: d.CorrelationID, Code: true, Hidden: !reveal && d.CorrelationID != ""}},
		{Name: "Reply to", Value: page.Value{Text: d.ReplyTo, Code: true, Hidden: !reveal && d.ReplyTo != ""}},
	}
	fields = slices.DeleteFunc(fields, func(f page.Field) bool { return f.Value.Text == "" && f.Value.Time.IsZero() })
	if d.OrderID != "" {
		fields = append(fields, page.Field{Name: "Order", Value: page.CodeLink(d.OrderID, "/orders/"+d.OrderID)})
	}
	if d.TraceID != "" {
		fields = append(fields, page.Field{Name: "Trace", Value: page.Value{Text: d.TraceID, To: l.page.Trace(d.TraceID), Code: true}})
	}
	return fields
}

// known are the headers that this system and the broker write. They have no personal data, except
// for the reason.
var known = []string{
	consumer.RetryCountHeader, consumer.ElsewhereCountHeader, consumer.DeferredCountHeader, consumer.FailureCodeHeader,
	consumer.FailureReasonHeader, consumer.FailedAtHeader, consumer.OriginalExchangeHeader, consumer.ForcedHeader,
	consumer.ReplayedHeader, consumer.DecisionHeader, "traceparent",
	"x-death", "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason",
	"x-last-death-exchange", "x-last-death-queue", "x-last-death-reason", "x-delivery-count", "x-acquired-count",
}

const (
	maxHeaders = 200    // rows
	maxHeader  = 10_000 // characters of one
	maxBody    = 300_000
)

func headers(d deadletter.Detail, reveal bool) page.Fields {
	fields := page.Fields{}
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		if len(fields) == maxHeaders {
			return append(fields, page.Field{Name: "…", Value: page.Text(fmt.Sprintf("%d headers are not shown", len(d.Headers)-maxHeaders))})
		}
		value := page.Code(cut(deadletter.HeaderText(d.Headers[name]), maxHeader))
		switch {
		case reveal:
		case !slices.Contains(known, name):
			value = page.Value{Hidden: true}
		default:
			value.Text = withoutAddresses(value.Text)
		}
		fields = append(fields, page.Field{Name: name, Value: value})
	}
	if len(fields) == 0 {
		return page.Fields{{Name: "Headers", Value: page.Text("none")}}
	}
	return fields
}

func body(r *page.Request, d deadletter.Detail, reveal bool) page.Block {
	block := page.Block{Title: fmt.Sprintf("Body: %d bytes, %s", d.Size, d.BodyEncoding), Hidden: !reveal, Reveal: r.RevealLink()}
	if reveal {
		block.Text = cut(d.BodyText(), maxBody)
	}
	return block
}

// cut shortens a text to n bytes at most, and says so.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + fmt.Sprintf("… (%d bytes more; notification-service dlq show has all)", len(text)-n)
}
