package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

// typedAbove is how many events a decision may be about before the operator must type their number.
const typedAbove = 100

// choice is what a decision is about, as the form and the fields of its link say it.
type choice struct {
	Action        operate.Action
	Topic, Reason string
	ID            string      // of one event
	ids           []uuid.UUID // the same
	filter        operate.Filter
}

// choice reads it. Only an operator has one.
func (p *Page) choice(r request) (c choice, err error) {
	if !r.decides {
		p.note(r.Request, "not_an_operator", r.user)
		return c, refused{http.StatusForbidden, fmt.Sprintf("%s may look at everything here, but not decide.", r.user)}
	}
	c = choice{Action: operate.Action(r.get("action")), Topic: r.query.Get("topic"), Reason: r.query.Get("reason"), ID: r.get("id")}
	c.filter = operate.Filter{Status: operate.Failed, Topic: c.Topic, FailureCode: c.Reason}
	switch {
	case c.Action == operate.Pause, c.Action == operate.Resume:
		if c.Topic == "" {
			err = refused{http.StatusUnprocessableEntity, "The field topic is empty. Write a " + p.Topic + ", or * for every " + p.Topic + "."}
		}
	case c.Action != operate.Replay && c.Action != operate.Discard:
		err = refused{http.StatusUnprocessableEntity, "The field action must be replay, discard, pause or resume."}
	case c.ID != "":
		c.ids = make([]uuid.UUID, 1)
		c.ids[0], err = r.id("id")
	case c.Topic == "" && c.Reason == "":
		err = refused{http.StatusUnprocessableEntity, "This would be about every failed " + p.Event + ". Choose a " + p.Topic + " or a reason."}
	}
	return c, err
}

// question is a decision that is not made yet.
type question struct {
	choice
	operate.Matching
	Typed    bool // the operator must type the number
	Typing   string
	Form     uuid.UUID         // a form that is sent twice is refused, because it has the same one
	Done     *operate.Decision // the one before, about the same events
	Refusals []operate.Refusal // what one event is left for
	About    *operate.PausedTopic
	Event    *operate.Event
	Verb     string
}

// ask shows what a decision would change, with a form to make it.
func (p *Page) ask(ctx context.Context, r request) (view, error) {
	c, err := p.choice(r)
	if err != nil {
		return view{}, err
	}
	q := question{choice: c, Form: uuid.New(), Verb: verb(c.Action)}
	switch {
	case c.Action == operate.Pause || c.Action == operate.Resume:
		if q.About, err = p.pause(ctx, c.Topic); err == nil && c.Action == operate.Resume && q.About == nil {
			err = operate.ErrNotPaused
		}
	case c.ID != "":
		err = p.askAboutOne(ctx, &q)
	default:
		q.Matching, err = p.operator.Matching(ctx, c.filter)
	}
	if err == nil && r.get("done") != "" {
		// The operator has just decided about events of this kind: the rest needs one click.
		q.Done, err = p.decision(ctx, r)
		q.Typing = strconv.Itoa(q.Count)
	}
	if err != nil {
		return view{}, err
	}
	q.Typed = q.Count > typedAbove
	title := q.Verb + "?"
	if q.Done != nil && q.Count == 0 {
		title = "Done"
	}
	return view{Title: title, Body: "decide", Data: q}, nil
}

func (p *Page) askAboutOne(ctx context.Context, q *question) (err error) {
	if q.At, err = p.operator.Now(ctx); err != nil {
		return err
	}
	would, err := p.operator.AsOf(q.At).DryRun(ctx, q.Action, q.ids)
	q.Refusals, q.Count = would.Refused, len(would.Changed)
	if q.Count == 1 {
		q.Event = &would.Changed[0]
	}
	return err
}

// decision returns the decision that the field done names.
func (p *Page) decision(ctx context.Context, r request) (*operate.Decision, error) {
	id, err := r.id("done")
	if err != nil {
		return nil, err
	}
	d, err := p.log.Get(ctx, id)
	return &d, err
}

// decide makes a decision, if its events are those that the form has shown.
func (p *Page) decide(ctx context.Context, r request) (view, error) {
	c, err := p.choice(r)
	if err != nil {
		return view{}, err
	}
	by := r.by(operate.ByIDs)
	if by.Once, err = r.id("form"); err != nil {
		return view{}, err
	}
	ctx = context.WithoutCancel(ctx) // who goes away leaves the decision whole; the database has its own limit
	if c.Action == operate.Pause {
		why := r.get("why")
		if why == "" {
			return view{}, refused{http.StatusUnprocessableEntity, "The field why is empty. Other operators will want to know it."}
		}
		by.Filter = "--reason " + why
		return view{Redirect: "topics"}, p.operator.Pause(ctx, by, c.Topic, why)
	}
	if c.Action == operate.Resume {
		seen := operate.PausedTopic{Topic: c.Topic, Operator: r.query.Get("paused_by"), Reason: r.query.Get("paused_why")}
		err := p.operator.ResumeSeen(ctx, by, seen)
		if errors.Is(err, operate.ErrNotPaused) {
			err = refused{http.StatusConflict, "Nothing was changed: it is not paused any more, or another operator has paused it since. Look again."}
		}
		return view{Redirect: "topics"}, err
	}
	seen, err := r.seen()
	if err != nil {
		return view{}, err
	}
	if c.ID != "" {
		return p.decideOne(ctx, by, c, seen)
	}
	by.Filter = c.filter.String()
	result, err := p.operator.DecideAll(ctx, by, c.Action, c.filter, seen)
	if err == nil && len(result.Changed) == 0 {
		err = refused{http.StatusConflict, fmt.Sprintf("Nothing was changed: %s.", result.Refused[0])}
	}
	if err != nil {
		return view{}, err
	}
	return view{Redirect: pageOf("decide", "action", c.Action, "topic", c.Topic, "reason", c.Reason, "done", by.Decision)}, nil
}

// seen reads how many events the form has shown, and when. A number that was to be typed must be
// the same.
func (r request) seen() (seen operate.Matching, err error) {
	seen.At, err = time.Parse(time.RFC3339Nano, r.get("at"))
	if err == nil {
		seen.Count, err = strconv.Atoi(r.get("seen"))
	}
	if err != nil || seen.Count < 1 {
		return seen, refused{http.StatusUnprocessableEntity, "The form has lost its fields at and seen. Begin again."}
	}
	if typed := strings.ReplaceAll(r.get("count"), ",", ""); seen.Count > typedAbove && typed != strconv.Itoa(seen.Count) {
		return seen, refused{http.StatusUnprocessableEntity, fmt.Sprintf("Nothing was changed: the field count is %q, but must be %d. Go back and type it.", typed, seen.Count)}
	}
	return seen, nil
}

func (p *Page) decideOne(ctx context.Context, by operate.By, c choice, seen operate.Matching) (view, error) {
	operator := p.operator.AsOf(seen.At)
	change := operator.Replay
	if c.Action == operate.Discard {
		change = operator.Discard
	}
	result, err := change(ctx, by, c.ids)
	if err == nil && len(result.Refused) > 0 {
		err = refused{http.StatusConflict, fmt.Sprintf("Nothing was changed: %s.", result.Refused[0])}
	}
	return view{Redirect: pageOf("event", "id", c.ID)}, err
}
