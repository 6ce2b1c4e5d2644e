package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

// What is shown of one aggregate at most.
const (
	maxEvents    = 100
	maxDecisions = 50
)

// event shows one event, whatever its status is, and what happened to it.
func (p *Page) event(ctx context.Context, r request) (view, error) {
	id, err := r.id("id")
	if err != nil {
		return view{}, err
	}
	d, err := p.operator.Show(ctx, id)
	if err != nil {
		return view{}, err
	}
	steps, err := p.steps(ctx, []operate.Event{d.Event})
	if err != nil {
		return view{}, err
	}
	paused, err := p.pause(ctx, d.Topic, operate.EveryTopic)
	if err != nil {
		return view{}, err
	}
	data := map[string]any{"Event": d, "Steps": steps, "Actions": actionsFor(d.Event), "Paused": paused}
	shown := r.query.Has("payload")
	if shown {
		if !r.decides {
			return view{}, refused{http.StatusForbidden, fmt.Sprintf("%s may not see payloads.", r.user)}
		}
		p.Logger.InfoContext(ctx, "payload shown", "operator", r.user, "message_id", id)
		data["Payload"] = readable(d.Payload)
	}
	return view{Title: capital(p.Event) + " " + id.String(), Body: "event", Data: data, Reloads: !shown}, nil
}

// readable is a payload as text: JSON on several lines, and bytes that are no text in hexadecimal.
func readable(payload []byte) string {
	var indented bytes.Buffer
	switch {
	case !isDeep(payload) && json.Indent(&indented, payload, "", "  ") == nil:
		return indented.String()
	case utf8.Valid(payload):
		return string(payload)
	default:
		return fmt.Sprintf("%x", payload)
	}
}

// isDeep reports whether brackets are nested so deep that to indent them would take much memory.
func isDeep(payload []byte) bool {
	depth := 0
	for _, b := range payload {
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth > 20 {
			return true
		}
	}
	return false
}

// aggregate shows what happened to the events of one aggregate.
func (p *Page) aggregate(ctx context.Context, r request) (view, error) {
	kind, id := r.query.Get("type"), r.query.Get("id")
	events, err := p.operator.History(ctx, kind, id, maxEvents)
	if err == nil && len(events) == 0 {
		err = refused{http.StatusNotFound, fmt.Sprintf("There is no %s about %s %s. It was never committed, or all were finished longer ago than the retention.", p.Event, kind, id)}
	}
	if err != nil {
		return view{}, err
	}
	steps, err := p.steps(ctx, events)
	return view{Title: capital(kind) + " " + id, Body: "aggregate", Reloads: true, Data: map[string]any{
		"Events": events, "Steps": steps, "More": len(events) == maxEvents,
	}}, err
}

// step is something that happened, or that an event waits for.
type step struct {
	At     time.Time // zero: it has not happened yet
	Bad    bool
	Event  operate.Event
	Text   string
	Detail string
}

// steps are those of events, in the order of time, with what operators have decided about them.
func (p *Page) steps(ctx context.Context, events []operate.Event) (all []step, err error) {
	ids := operate.IDs(operate.IDsOf(events))
	decisions, err := p.log.Of(ctx, ids, maxDecisions)
	for _, e := range events {
		all = append(all, p.stepsOf(e)...)
		for _, d := range decisions {
			if slices.Contains(d.Items, e.ID.String()) && d.Action != operate.Find {
				text := fmt.Sprintf("%s by %s, %s", past[d.Action], d.Operator, d.Via.Text())
				if d.FinishedAt == nil {
					text += "; the decision has no recorded end, so perhaps this " + p.Event + " was not reached"
				}
				all = append(all, step{d.At, d.Action == operate.Discard, e, text, ""})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b step) int {
		if a.At.IsZero() != b.At.IsZero() { // what has not happened is last
			return b.At.Compare(a.At)
		}
		return a.At.Compare(b.At)
	})
	return all, err
}

func (p *Page) stepsOf(e operate.Event) []step {
	why := ""
	if e.FailureCode != "" {
		why = e.FailureCode + ": " + masked(e.FailureReason)
	}
	all := []step{{e.CreatedAt, false, e, "committed", ""}}
	if e.CreatedAt.IsZero() {
		all = []step{{e.CreatedAt, true, e, "cannot be sent: its payload is gone from the log", ""}}
	}
	add := func(at *time.Time, bad bool, text, detail string) {
		s := step{Bad: bad, Event: e, Text: text, Detail: detail}
		if at != nil {
			s.At = *at
		}
		all = append(all, s)
	}
	attempts := fmt.Sprintf("not taken %s", counted(e.RetryCount, false, "time"))
	if e.FailedAt != nil {
		add(e.FailedAt, true, "failed, "+attempts, why)
	} else if e.RetryCount > 0 {
		add(nil, true, attempts, why)
	}
	switch e.Status {
	case operate.Published:
		add(e.PublishedAt, false, "taken by "+p.Destination, "")
	case operate.Discarded:
		add(e.DiscardedAt, true, "given up: it is never sent", "")
	case operate.Superseded:
		add(e.DiscardedAt, false, "superseded: a newer "+p.Event+" took its place, and it was not sent", "")
	case operate.Failed:
	case operate.InProgress:
		add(nil, false, "being sent by "+e.Worker, "its lease ends at "+at(*e.ClaimedUntil))
	default:
		add(nil, e.Paused, p.waitsFor(e), "")
	}
	return all
}

// waitsFor says when a pending event is sent.
func (p *Page) waitsFor(e operate.Event) string {
	switch {
	case e.Paused:
		return "waits: its " + p.Topic + " is paused"
	case e.DueAt == nil:
		return "waits for an older " + p.Event + " of the " + e.Aggregate
	default:
		return "due at " + at(*e.DueAt)
	}
}

// linkTo leads to the aggregate of an event, or to the event if it is about none.
func linkTo(e operate.Event) string {
	if e.Aggregate == "" {
		return pageOf("event", "id", e.ID)
	}
	return pageOf("aggregate", "type", e.Aggregate, "id", e.AggregateID)
}

// topics shows those that are paused, in their order.
func (p *Page) topics(ctx context.Context, r request) (view, error) {
	after := r.get("after")
	paused, err := p.operator.Topics(ctx, after, pageSize+1)
	data := map[string]any{"First": after == ""}
	if len(paused) > pageSize {
		paused = paused[:pageSize]
		data["Next"] = pageOf("topics", "after", paused[pageSize-1].Topic)
	}
	data["Paused"] = paused
	return view{Title: "Paused " + p.Topic + "s", Body: "topics", Data: data}, err
}

// decisions shows the record, the newest first.
func (p *Page) decisions(ctx context.Context, r request) (view, error) {
	before := uuid.Nil
	if r.get("before") != "" {
		var err error
		if before, err = r.id("before"); err != nil {
			return view{}, err
		}
	}
	found, err := p.log.List(ctx, before, pageSize+1)
	data := map[string]any{"First": before == uuid.Nil}
	if len(found) > pageSize {
		found = found[:pageSize]
		data["Next"] = pageOf("decisions", "before", found[pageSize-1].Decision)
	}
	data["Decisions"] = found
	return view{Title: "Decisions", Body: "decisions", Data: data, Reloads: true}, err
}
