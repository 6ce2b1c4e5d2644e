package page

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

// How many of the newest events a search without an index reads.
const (
	searchedTraces   = 100_000
	searchedPayloads = 20_000
)

// find leads to what an id names: an event, an aggregate or a trace. It also has the form for a
// text.
func (p *Page) find(ctx context.Context, r request) (view, error) {
	query := r.get("q")
	found, err := p.locate(ctx, query)
	if found != "" || err != nil {
		return view{Redirect: found}, err
	}
	v := view{Title: "Find", Body: "find", Data: map[string]any{"Query": query, "Traces": searchedTraces, "Payloads": searchedPayloads}}
	if query != "" {
		v.Status = http.StatusNotFound
	}
	return v, nil
}

// locate returns the page of what the query names, or "".
func (p *Page) locate(ctx context.Context, query string) (string, error) {
	if query == "" {
		return "", nil
	}
	if id, err := uuid.Parse(query); err == nil {
		found, err := p.operator.Get(ctx, id)
		if len(found) > 0 {
			return linkTo(found[0]), nil
		}
		if err != nil {
			return "", err
		}
	}
	if trace := cmp.Or(traceOf(query), query); isTrace(trace) {
		e, err := p.operator.OfTrace(ctx, trace, searchedTraces)
		if err == nil {
			return linkTo(e), nil
		}
		if !errors.Is(err, operate.ErrNoEvent) {
			return "", err
		}
	}
	kind, id, typed := strings.Cut(query, "/")
	if !typed {
		kind, id = p.Aggregate, strings.ToLower(query)
	}
	events, err := p.operator.History(ctx, kind, id, 1)
	if len(events) == 0 {
		return "", err
	}
	return linkTo(events[0]), nil
}

// findText looks for a text in payloads, such as a customer's address. It is a POST, so that the
// text is in no log of URLs, and it is recorded.
func (p *Page) findText(ctx context.Context, r request) (view, error) {
	if !r.decides {
		p.note(r.Request, "not_an_operator", r.user)
		return view{}, refused{http.StatusForbidden, r.user + " may not search in payloads."}
	}
	text := r.get("text")
	if len(text) < 3 {
		return view{}, refused{http.StatusUnprocessableEntity, "The field text is too short. Write at least three letters, such as an address."}
	}
	found, err := p.operator.WithText(ctx, r.by("text "+masked(text)), text, searchedPayloads, pageSize+1)
	more := len(found) > pageSize
	if more {
		found = found[:pageSize]
	}
	v := view{Title: "Found " + counted(len(found), more, p.Event), Body: "found", Data: map[string]any{"Events": found, "Payloads": searchedPayloads}}
	return v, err
}
