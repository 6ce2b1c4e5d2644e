package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

// pageSize is how many rows a list shows.
const pageSize = 50

// oldest is the order of a list that begins with the oldest events. The default is the newest.
const oldest = "oldest"

// filter reads which events a list or a decision is about.
func (r request) filter() (operate.Filter, error) {
	f := operate.Filter{
		Status: r.get("status"), Topic: r.query.Get("topic"), FailureCode: r.query.Get("reason"), Newest: r.get("order") != oldest,
	}
	if f.Status == "" {
		f.Status = operate.Failed
	}
	if !slices.Contains(operate.Statuses(), f.Status) {
		return f, refused{http.StatusUnprocessableEntity, fmt.Sprintf("The field status is %q, but must be one of: %s.", f.Status, strings.Join(operate.Statuses(), ", "))}
	}
	return f, nil
}

// list shows the events of one status. Failed ones are in the order of their failures, the others
// in that of their ids.
func (p *Page) list(ctx context.Context, r request) (view, error) {
	f, err := r.filter()
	if err != nil {
		return view{}, err
	}
	data := map[string]any{"Filter": f, "Statuses": operate.Statuses(), "Oldest": !f.Newest, "First": r.get("after") == ""}
	if f.Status == operate.Failed {
		groups, more, err := p.operator.Failures(ctx)
		if err != nil {
			return view{}, err
		}
		data["Groups"], data["MoreGroups"] = slices.DeleteFunc(groups, func(g operate.FailureGroup) bool {
			return f.Topic != "" && f.Topic != g.Topic || f.FailureCode != "" && f.FailureCode != g.FailureCode
		}), more
	}
	paused, err := p.pause(ctx, f.Topic, operate.EveryTopic)
	if err != nil {
		return view{}, err
	}
	events, next, err := p.events(ctx, f, r.get("after"))
	if err != nil {
		return view{}, err
	}
	fields := []any{"status", f.Status, "topic", f.Topic, "reason", f.FailureCode, "order", r.get("order")}
	data["Paused"], data["Events"], data["Start"] = paused, events, pageOf("list", fields...)
	if next != "" {
		data["Next"] = pageOf("list", append(fields, "after", next)...)
	}
	return view{Title: capital(strings.ReplaceAll(f.Status, "_", " ")) + " " + p.Event + "s", Body: "events", Data: data}, nil
}

// pause returns the first of these topics that is paused, or nil. For what holds a topic back, give it
// and [operate.EveryTopic].
func (p *Page) pause(ctx context.Context, topics ...string) (*operate.PausedTopic, error) {
	for _, topic := range topics {
		if topic == "" {
			continue
		}
		found, err := p.operator.PausedTopic(ctx, topic)
		if !errors.Is(err, operate.ErrNotPaused) {
			return &found, err
		}
	}
	return nil, nil
}

// events returns a page of rows, and the place after which the next page begins, or "".
func (p *Page) events(ctx context.Context, f operate.Filter, after string) (events []operate.Event, next string, err error) {
	place, err := readPlace(after)
	if err != nil {
		return nil, "", err
	}
	if f.Status == operate.Failed {
		events, err = p.operator.Failed(ctx, f, place, pageSize+1)
	} else {
		events, err = p.operator.List(ctx, f, place.ID, pageSize+1)
	}
	if len(events) > pageSize {
		events = events[:pageSize]
		last := events[pageSize-1]
		if next = last.ID.String(); last.FailedAt != nil {
			next += "_" + last.FailedAt.UTC().Format(time.RFC3339Nano)
		}
	}
	return events, next, err
}

// readPlace reads the place of an event: its id and, if it has failed, the time.
func readPlace(text string) (place operate.Cursor, err error) {
	if text == "" {
		return place, nil
	}
	id, at, failed := strings.Cut(text, "_")
	if place.ID, err = uuid.Parse(id); err == nil && failed {
		place.FailedAt, err = time.Parse(time.RFC3339Nano, at)
	}
	if err != nil {
		err = refused{http.StatusUnprocessableEntity, "The field after is not the place of an event. Begin with the first rows."}
	}
	return place, err
}
