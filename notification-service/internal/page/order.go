package page

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/outbox/operate"
)

// maxDecisions is how many decisions about an order's messages are shown.
const maxDecisions = 50

// maxDead is how many dead letters of an order are shown. Any publisher may write any order's id.
const maxDead = 100

// order shows this service's half of an order's way.
func (l letters) order(ctx context.Context, r *page.Request) (page.Result, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return page.Result{}, page.Errorf(http.StatusNotFound, "This is not the id of an order.")
	}
	reveal, err := r.Reveals(ctx, "order", id.String())
	if err != nil {
		return page.Result{}, err
	}
	arrivals, err := l.history.OfOrder(ctx, id)
	if err != nil {
		return page.Result{}, err
	}
	dead, notes := l.deadOf(ctx, id.String())
	decisions, err := l.log.Of(ctx, messagesOf(arrivals, dead), maxDecisions)
	if err != nil {
		return page.Result{}, err
	}
	steps := slices.Concat(arrivalSteps(r, arrivals, reveal), l.deadSteps(dead), decisionSteps(decisions))
	slices.SortStableFunc(steps, func(a, b page.Step) int { return a.At.Compare(b.At) })
	result := page.Show("Order "+id.String(), notes...)
	if len(steps) > 0 {
		steps = append(steps, waitingSteps(arrivals)...)
		result.Parts = append(result.Parts, page.Timeline{Title: "In notification-service", Steps: steps})
	} else {
		result.Status = http.StatusNotFound
		result.Parts = append(result.Parts, page.Message{
			Title: "Nothing of this order is known here.",
			Text:  "No message about it has arrived, or it is longer ago than NOTIFICATION_RETENTION.",
		})
	}
	if other := l.page.PeerPage("/orders/" + id.String()); other != "" {
		result.Parts = append(result.Parts, page.Message{
			Title: "What came before the broker is in order-service.", Links: []page.Link{{Text: "Order " + id.String() + " in order-service", To: other}},
		})
	}
	return result, nil
}

// deadOf returns the dead letters about an order. If they cannot be read, a note says so.
func (l letters) deadOf(ctx context.Context, order string) (dead []deadletter.Entry, notes []page.Part) {
	snapshot, err := l.snapshot(ctx, listAge)
	if err != nil {
		return nil, []page.Part{page.Message{Level: page.Warn, Title: "It is not known which dead letters this order has.", Text: problem(err)}}
	}
	if text := unread(snapshot); text != "" {
		notes = append(notes, page.Message{Level: page.Warn, Title: "This order may have further dead letters.", Text: text})
	}
	for _, e := range snapshot.Letters {
		if e.OrderID != order {
			continue
		}
		if len(dead) == maxDead {
			title := fmt.Sprintf("This order has more than %d dead letters.", maxDead)
			return dead, append(notes, page.Message{Level: page.Warn, Title: title, Text: "The others are in the list of dead letters."})
		}
		dead = append(dead, e)
	}
	return dead, notes
}

// messagesOf returns the ids for which the decisions are searched.
func messagesOf(arrivals []notification.Arrival, dead []deadletter.Entry) (ids []string) {
	for _, a := range arrivals {
		ids = append(ids, a.MessageID.String())
	}
	for _, e := range dead {
		ids = append(ids, e.Item())
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// arrivalSteps are what has happened to the messages that arrived.
func arrivalSteps(r *page.Request, arrivals []notification.Arrival, reveal bool) (steps []page.Step) {
	for _, a := range arrivals {
		consumed := page.Step{
			Title: a.EventKey + " consumed", At: a.CreatedAt, Level: page.OK,
			Facts: page.Fields{
				{Name: "Message", Value: page.Code(a.MessageID.String())},
				{Name: "Version of the order", Value: page.Text(fmt.Sprint(a.OrderVersion))},
				{Name: "Inbox", Value: page.Text("does not remember it any more: a repeat becomes a dead letter")},
				{Name: "E-mail to", Value: page.Value{Text: a.Recipient, Hidden: !reveal}},
				{Name: "Attempts to send", Value: page.Text(fmt.Sprint(a.Attempts))},
			},
		}
		if a.InboxSince != nil {
			consumed.Facts[2].Value = page.Text("remembers it, so a repeat has no effect")
		}
		if link := r.RevealLink(); link != "" && !reveal {
			consumed.Links = []page.Link{{Text: "Show personal data", To: link}}
		}
		steps = append(steps, consumed)
		if a.SentAt != nil {
			steps = append(steps, page.Step{Title: a.EventKey + " e-mailed", At: *a.SentAt, Level: page.OK, Text: "The mail server has accepted the e-mail."})
		}
	}
	return steps
}

// waitingSteps are what the messages wait for, and what ended them without a time.
func waitingSteps(arrivals []notification.Arrival) (steps []page.Step) {
	for _, a := range arrivals {
		step := page.Step{Title: a.EventKey + " " + string(a.Status), Level: page.Warn}
		switch a.Status {
		case notification.Pending:
			step.Text = "The e-mail is not sent yet. The message comes again from a retry queue."
		case notification.Sending:
			step.Text = "The e-mail is being sent."
			if a.LeaseEnded {
				step.Text = "The process that was sending the e-mail died or stalled. The message comes again, and the e-mail is sent then."
			}
			if a.LeaseUntil != nil {
				step.Facts = page.Fields{{Name: "Lease until", Value: page.Moment(*a.LeaseUntil)}}
			}
		case notification.Rejected:
			step.Level, step.Text = page.Bad, "The e-mail was refused. The message is a dead letter, or was one. "
			if a.FailureReason != nil {
				step.Text += withoutAddresses(*a.FailureReason)
			}
		case notification.Superseded:
			step.Level = ""
			step.Text = fmt.Sprintf("No e-mail was sent for version %d, because version %d of the order has arrived.", a.OrderVersion, a.LastVersion)
		default:
			continue
		}
		steps = append(steps, step)
	}
	return steps
}

func (l letters) deadSteps(dead []deadletter.Entry) (steps []page.Step) {
	for _, e := range dead {
		step := page.Step{
			Title: cmp.Or(e.RoutingKey, "message") + " became a dead letter", Level: page.Bad, Text: withoutAddresses(e.Reason),
			Facts: page.Fields{{Name: "Code", Value: page.Code(e.Code)}, {Name: "Retries", Value: page.Text(fmt.Sprint(e.Retries))}},
			Links: []page.Link{{Text: "Dead letter", To: "/dead/" + e.Key}},
		}
		if e.FailedAt != nil {
			step.At = *e.FailedAt
		}
		if trace := l.page.Trace(e.TraceID); e.TraceID != "" && trace != "" {
			step.Links = append(step.Links, page.Link{Text: "Trace", To: trace})
		}
		steps = append(steps, step)
	}
	return steps
}

func decisionSteps(batches []operate.Batch) (steps []page.Step) {
	for _, b := range batches {
		step := page.Step{
			Title: fmt.Sprintf("%s decided: %s", b.Operator, b.Action), At: b.At,
			Links: []page.Link{{Text: "Decision", To: "/audit/" + b.Decision.String()}},
		}
		if b.FinishedAt == nil {
			step.Level, step.Text = page.Warn, "It has no recorded end, so it is not known whether this message was changed."
		}
		steps = append(steps, step)
	}
	return steps
}

// failedAt is for a list of dead letters that are found.
func failedAt(at *time.Time) string {
	if at == nil {
		return "at an unknown time"
	}
	return at.UTC().Format(time.DateTime) + " UTC"
}
