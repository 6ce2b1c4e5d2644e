package outboxpage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/outbox/operate"
)

// detail shows one event, whatever its status is.
func (p Pages) detail(ctx context.Context, r *page.Request) (page.Result, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return page.Result{}, page.Errorf(http.StatusNotFound, "This is not the id of an event. The list has links with the ids.")
	}
	reveal, err := r.Reveals(ctx, "event", id.String())
	if err != nil {
		return page.Result{}, err
	}
	d, err := p.operator.Show(ctx, id)
	if errors.Is(err, operate.ErrNoEvent) {
		return page.Result{}, page.Errorf(http.StatusNotFound, "There is no event %s. It was never committed, or it was finished longer ago than OUTBOX_RETENTION.", id)
	}
	if err != nil {
		return page.Result{}, err
	}
	parts := []page.Part{p.properties(d)}
	if d.Status == "failed" && r.User.May(page.Operate) {
		parts = append(parts, page.Buttons{
			Title: "Decide", Post: "/failed/preview", Actions: actions, Hidden: []page.Hidden{{Name: "id", Value: id.String()}},
		})
	}
	return page.Show(strings.ToUpper(string(p.Noun[:1]))+string(p.Noun[1:])+" "+d.Topic, append(parts, payload(r, d, reveal))...), nil
}

var levels = map[string]page.Level{"published": page.OK, "failed": page.Bad, "discarded": page.Warn}

func (p Pages) properties(d operate.Detail) page.Fields {
	fields := page.Fields{
		{Name: "Event", Value: page.Code(d.ID.String())},
		{Name: "Status", Value: page.Value{Text: d.Status, Level: levels[d.Status]}},
		{Name: "Topic", Value: page.Code(d.Topic)},
		{Name: "Order", Value: orderLink(d.Event)},
		{Name: "Version", Value: page.Text(fmt.Sprint(d.Version))},
		{Name: "Attempts", Value: page.Text(fmt.Sprint(d.RetryCount))},
		{Name: "Reason", Value: page.Code(d.FailureCode)},
		{Name: p.said(), Value: page.Text(d.FailureReason)},
		{Name: "Created", Value: page.Moment(d.CreatedAt)},
		{Name: "Content type", Value: page.Code(d.ContentType)},
	}
	if d.FailedAt != nil {
		fields = append(fields, page.Field{Name: "Failed", Value: page.Moment(*d.FailedAt)})
	}
	if d.PublishedAt != nil {
		fields = append(fields, page.Field{Name: "Published", Value: page.Moment(*d.PublishedAt)})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		fields = append(fields, page.Field{Name: "Header " + name, Value: page.Code(d.Headers[name])})
	}
	if d.Halted {
		fields = append(fields, page.Field{Name: "Waits for", Value: page.Text("the end of its topic's pause")})
	}
	for _, older := range d.BlockedBy {
		fields = append(fields, page.Field{Name: "Waits for", Value: page.CodeLink(
			fmt.Sprintf("%s (version %d, %s)", older.ID, older.Version, older.Status), "/failed/"+older.ID.String())})
	}
	if d.Waiting > 0 {
		fields = append(fields, page.Field{Name: "Holds back", Value: page.Text(p.Noun.Count(d.Waiting) + " of its order")})
	}
	fields = slices.DeleteFunc(fields, func(f page.Field) bool { return f.Value.Text == "" && f.Value.Time.IsZero() })
	return append(fields, p.traceField(d.Traceparent)...)
}

// payload hides all of it, because this package does not know which fields are personal.
func payload(r *page.Request, d operate.Detail, reveal bool) page.Block {
	block := page.Block{Title: "Payload", Hidden: !reveal, Reveal: r.RevealLink()}
	if reveal {
		block.Text = string(d.Payload)
		var indented bytes.Buffer
		if json.Indent(&indented, d.Payload, "", "  ") == nil {
			block.Text = indented.String()
		}
	}
	return block
}
