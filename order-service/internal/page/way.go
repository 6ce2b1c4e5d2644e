package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/outbox/operate"
)

// These limit how many events and decisions of one order are shown.
const (
	maxEvents    = 100
	maxDecisions = 50
)

// way shows what happened to one order's events up to the broker.
func (e events) way(ctx context.Context, r *page.Request) (page.Result, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return page.Result{}, page.Errorf(http.StatusNotFound, "This is not the id of an order.")
	}
	reveal, err := r.Reveals(ctx, "order", id.String())
	if err != nil {
		return page.Result{}, err
	}
	found, _, err := e.orders.Get(ctx, id)
	if errors.Is(err, order.ErrNoOrder) {
		return page.Result{}, page.Errorf(http.StatusNotFound, "There is no order %s.", id)
	}
	if err != nil {
		return page.Result{}, err
	}
	steps, err := e.operator.History(ctx, order.Aggregate, id.String(), maxEvents)
	if err != nil {
		return page.Result{}, err
	}
	ids := make([]string, 0, len(steps))
	for _, s := range steps {
		ids = append(ids, s.ID.String())
	}
	decisions, err := e.log.Of(ctx, ids, maxDecisions)
	if err != nil {
		return page.Result{}, err
	}
	parts := []page.Part{e.order(r, found, reveal), e.timeline(steps, decisions)}
	if len(steps) < found.Version {
		parts = append(parts, page.Message{
			Title: fmt.Sprintf("%d of %s shown.", len(steps), countNoun(found.Version)),
			Text:  "The others were published or discarded longer ago than OUTBOX_RETENTION, or they are too many for this page.",
		})
	}
	return page.Show("Order "+id.String(), append(parts, e.otherHalf(id))...), nil
}

func (e events) order(r *page.Request, o order.Order, reveal bool) page.Fields {
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

// otherHalf links to what notification-service knows of the order.
func (e events) otherHalf(id uuid.UUID) page.Part {
	text := "It shows when the messages arrived, and what became of the e-mails."
	if to := e.page.PeerPage("/orders/" + id.String()); to != "" {
		return page.Message{Title: "What came after the broker is in notification-service.", Text: text, Links: []page.Link{{Text: "Show it", To: to}}}
	}
	return page.Message{Title: "What came after the broker is in notification-service.", Text: text + " PEER_PAGE_URL is not set, so there is no link."}
}

// timeline has the steps of all events in the order of time. Those without a time are last.
func (e events) timeline(steps []operate.Event, decisions []operate.Batch) page.Timeline {
	var all []page.Step
	for _, s := range steps {
		all = append(all, e.steps(s)...)
		for _, d := range slices.Backward(decisions) {
			if slices.Contains(d.Items, s.ID.String()) {
				all = append(all, decided(s, d))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b page.Step) int {
		if a.At.IsZero() != b.At.IsZero() {
			if a.At.IsZero() {
				return 1
			}
			return -1
		}
		return a.At.Compare(b.At)
	})
	return page.Timeline{Title: "Its way to the broker", Steps: all}
}

// steps are those of one event.
func (e events) steps(s operate.Event) []page.Step {
	facts := page.Fields{{Name: "Event and message id", Value: page.CodeLink(s.ID.String(), "/failed/"+s.ID.String())}}
	all := []page.Step{{
		Title: named(s, "committed"), At: s.CreatedAt, Level: page.OK, Text: "The order and this event are one transaction.",
		Facts: append(facts, e.traceField(s.Traceparent)...),
	}}
	attempts := page.Step{Title: named(s, cli.Noun("failed attempt").Count(s.RetryCount)), Level: page.Warn, Text: failure(s)}
	if s.RetryCount > 0 && s.FailedAt == nil {
		all = append(all, attempts)
	}
	switch {
	case s.PublishedAt != nil:
		all = append(all, page.Step{Title: named(s, "published"), At: *s.PublishedAt, Level: page.OK, Text: "The broker has confirmed it and routed it to a queue."})
	case s.Status == operate.Overtaken:
		all = append(all, page.Step{Title: named(s, "overtaken"), At: *s.DiscardedAt, Text: "A newer event of the order superseded it, so it was not sent."})
	case s.FailedAt != nil:
		all = append(all, page.Step{
			Title: named(s, "failed after "+cli.Noun("attempt").Count(s.RetryCount)), At: *s.FailedAt, Level: page.Bad, Text: failure(s),
			Links: []page.Link{{Text: "The event", To: "/failed/" + s.ID.String()}},
		})
	case s.DiscardedAt == nil:
		all = append(all, waiting(s))
	}
	if s.Status == operate.Discarded {
		all = append(all, page.Step{Title: named(s, "discarded"), At: *s.DiscardedAt, Level: page.Warn, Text: "It is never published."})
	}
	return all
}

// waiting says what an event that is not finished waits for.
func waiting(s operate.Event) page.Step {
	switch {
	case s.Worker != "":
		return page.Step{Title: named(s, "being published"), Text: "A relay has claimed it.", Facts: page.Fields{
			{Name: "Worker", Value: page.Code(s.Worker)}, {Name: "Its claim ends", Value: page.Moment(*s.ClaimedUntil)},
		}}
	case s.DueAt != nil:
		return page.Step{Title: named(s, "not published yet"), Text: failure(s), Facts: page.Fields{{Name: "Due", Value: page.Moment(*s.DueAt)}}}
	case s.Halted:
		return page.Step{Title: named(s, "waits: its topic is paused"), Level: page.Warn, Text: failure(s)}
	default:
		return page.Step{Title: named(s, "waits for an older event of the order"), Level: page.Warn}
	}
}

func named(s operate.Event, what string) string {
	return fmt.Sprintf("%s (version %d): %s", s.Topic, s.Version, what)
}

func failure(s operate.Event) string {
	if s.FailureCode == "" {
		return ""
	}
	return "The last failure: " + s.FailureCode + ". " + page.Shorten(s.FailureReason)
}

var past = map[operate.Action]string{operate.Replay: "replayed", operate.Discard: "discarded", operate.Republish: "sent again"}

func decided(s operate.Event, d operate.Batch) page.Step {
	step := page.Step{
		Title: named(s, past[d.Action]+" by an operator"), At: d.At, Level: page.Warn,
		Facts: page.Fields{{Name: "Who", Value: page.Text(d.Operator)}, {Name: "Where", Value: page.Text(d.Via.Text())}},
		Links: []page.Link{{Text: "The decision", To: "/audit/" + d.Decision.String()}},
	}
	if d.FinishedAt == nil {
		step.Text = "The decision has no recorded end, so perhaps this event was not reached."
	}
	return step
}

// traceField links to the trace, if there is one.
func (e events) traceField(traceparent string) page.Fields {
	trace := page.TraceOf(traceparent)
	if trace == "" {
		return nil
	}
	return page.Fields{{Name: "Trace", Value: page.CodeLink(trace, e.page.Trace(trace))}}
}
