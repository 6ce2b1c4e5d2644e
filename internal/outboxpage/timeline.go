package outboxpage

import (
	"context"
	"fmt"
	"slices"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/outbox/operate"
)

// These limit how many events and decisions of one order are shown.
const (
	maxEvents    = 100
	maxDecisions = 50
)

// Timeline shows what happened to the events of an order, and what operators decided about them. It
// also returns how many events it shows.
func (p Pages) Timeline(ctx context.Context, order string) (page.Timeline, int, error) {
	steps, err := p.operator.History(ctx, aggregate, order, maxEvents)
	if err != nil {
		return page.Timeline{}, 0, err
	}
	ids := make([]string, 0, len(steps))
	for _, s := range steps {
		ids = append(ids, s.ID.String())
	}
	decisions, err := p.log.Of(ctx, ids, maxDecisions)
	return p.timeline(steps, decisions), len(steps), err
}

// timeline has the steps of all events in the order of time. Those without a time are last.
func (p Pages) timeline(steps []operate.Event, decisions []operate.Batch) page.Timeline {
	var all []page.Step
	for _, s := range steps {
		all = append(all, p.steps(s)...)
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
	return page.Timeline{Title: "Its way to " + p.Destination, Steps: all}
}

// steps are those of one event.
func (p Pages) steps(s operate.Event) []page.Step {
	facts := page.Fields{{Name: "Event and message id", Value: page.CodeLink(s.ID.String(), "/failed/"+s.ID.String())}}
	all := []page.Step{{
		Title: named(s, "committed"), At: s.CreatedAt, Level: page.OK, Text: p.Committed,
		Facts: append(facts, p.traceField(s.Traceparent)...),
	}}
	attempts := page.Step{Title: named(s, cli.Noun("failed attempt").Count(s.RetryCount)), Level: page.Warn, Text: failure(s)}
	if s.RetryCount > 0 && s.FailedAt == nil {
		all = append(all, attempts)
	}
	switch {
	case s.PublishedAt != nil:
		all = append(all, page.Step{Title: named(s, p.Published), At: *s.PublishedAt, Level: page.OK, Text: p.Confirmed})
	case s.Status == operate.Superseded:
		all = append(all, page.Step{Title: named(s, "superseded"), At: *s.DiscardedAt, Text: "A newer event of the order took its place, so it was not sent."})
	case s.FailedAt != nil:
		all = append(all, page.Step{
			Title: named(s, "failed after "+cli.Noun("attempt").Count(s.RetryCount)), At: *s.FailedAt, Level: page.Bad, Text: failure(s),
			Links: []page.Link{{Text: "The event", To: "/failed/" + s.ID.String()}},
		})
	case s.DiscardedAt == nil:
		all = append(all, p.waiting(s))
	}
	if s.Status == operate.Discarded {
		all = append(all, page.Step{Title: named(s, "discarded"), At: *s.DiscardedAt, Level: page.Warn, Text: "It is never " + p.Published + "."})
	}
	return all
}

// waiting says what an event that is not finished waits for.
func (p Pages) waiting(s operate.Event) page.Step {
	switch {
	case s.Worker != "":
		return page.Step{Title: named(s, "being "+p.Published), Text: "A relay has claimed it.", Facts: page.Fields{
			{Name: "Worker", Value: page.Code(s.Worker)}, {Name: "Its claim ends", Value: page.Moment(*s.ClaimedUntil)},
		}}
	case s.DueAt != nil:
		return page.Step{Title: named(s, "not "+p.Published+" yet"), Text: failure(s), Facts: page.Fields{{Name: "Due", Value: page.Moment(*s.DueAt)}}}
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
func (p Pages) traceField(traceparent string) page.Fields {
	trace := page.TraceOf(traceparent)
	if trace == "" {
		return nil
	}
	return page.Fields{{Name: "Trace", Value: page.CodeLink(trace, p.page.Trace(trace))}}
}
