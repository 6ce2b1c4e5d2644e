package outboxpage

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/outbox/operate"
)

const listSize = 50 // rows of one page

var (
	replay  = page.Action{Name: "replay", Text: "Replay"}
	discard = page.Action{Name: "discard", Text: "Discard", Danger: true}
	actions = []page.Action{replay, discard}
)

func (p Pages) title() string { return "Failed " + string(p.Noun) + "s" }

func (p Pages) said() string { return "What " + p.Destination + " said" }

func (p Pages) list(ctx context.Context, r *page.Request) (page.Result, error) {
	form := readFilter(r.URL.Query())
	after, err := readAfter(r.URL.Query())
	if err != nil {
		return page.Result{}, err
	}
	groups, more, err := p.operator.Failures(ctx)
	if err != nil {
		return page.Result{}, err
	}
	if form.Problem() != nil {
		result := page.Show(p.title(), form.part(groups))
		result.Status = http.StatusUnprocessableEntity
		return result, nil
	}
	now, err := p.operator.Now(ctx)
	if err != nil {
		return page.Result{}, err
	}
	found, err := p.operator.Failed(ctx, form.at(now), after, listSize+1)
	if err != nil {
		return page.Result{}, err
	}
	table, pager := p.listed(r, form, after, found)
	return page.Show(p.title(), page.Heading{
		Text: "They wait for you", Note: p.FailedNote + " Replay sends it again, with all its attempts. Discard gives it up for good.",
	}, groupsPart(groups, more), form.part(groups), table, pager), nil
}

// readAfter reads the place after which the page begins.
func readAfter(query url.Values) (after operate.Cursor, err error) {
	text := query.Get(page.FieldAfter)
	if text == "" {
		return operate.Cursor{}, nil
	}
	at, id, _ := strings.Cut(text, "_")
	after.FailedAt, err = time.Parse(time.RFC3339Nano, at)
	if err == nil {
		after.ID, err = uuid.Parse(id)
	}
	if err != nil {
		return operate.Cursor{}, page.Errorf(http.StatusUnprocessableEntity, "The parameter after is not the place of an event. Begin with the first rows.")
	}
	return after, nil
}

// placeOf returns the place of an event in the list, as readAfter reads it.
func placeOf(e operate.Event) string {
	return e.FailedAt.UTC().Format(time.RFC3339Nano) + "_" + e.ID.String()
}

func groupsPart(groups []operate.FailureGroup, more bool) page.Groups {
	part := page.Groups{Title: "By reason and topic", Empty: "Nothing has failed."}
	for _, g := range groups {
		filter := readFilter(url.Values{fieldTopic: {g.Topic}, fieldReason: {g.FailureCode}})
		code := cmp.Or(g.FailureCode, "unknown reason")
		note := "the oldest failed at " + formatTime(g.OldestSince)
		if g.More {
			note = "or more; " + note
		}
		part.List = append(part.List, page.Group{
			Text: code + ", " + g.Topic, Count: int64(g.Count), About: g.More, To: filter.Path(""), Note: note, Level: page.Bad,
		})
	}
	if more {
		part.Title += fmt.Sprintf(" (the first %d)", len(groups))
	}
	return part
}

// listed returns a page of rows. found has one more than the page, if there is a next page.
func (p Pages) listed(r *page.Request, form filterForm, after operate.Cursor, found []operate.Event) (page.Table, page.Pager) {
	pager := page.Pager{}
	if after != (operate.Cursor{}) {
		pager.First = form.Path("")
	}
	if len(found) > listSize {
		found = found[:listSize]
		pager.Next = form.Path(placeOf(found[listSize-1]))
	}
	pager.Note = p.Noun.Count(len(found)) + " on this page"
	table := p.eventsTable(p.title()+", the oldest failure first", found)
	table.Empty = "No failed " + string(p.Noun) + " matches."
	if r.User.May(page.Operate) {
		table.Choose = &page.Choose{Post: "/failed/preview", Actions: actions, Filter: form.Hidden()}
		if !form.empty() {
			table.Choose.All = "all that match"
		}
	}
	return table, pager
}

func (p Pages) eventsTable(caption string, entries []operate.Event) page.Table {
	table := page.Table{
		Caption: caption, Columns: []string{"Event", "Topic", "Order", "Version", "Reason", "Attempts", "Failed at", p.said()},
	}
	for _, e := range entries {
		failed := page.Text("")
		if e.FailedAt != nil {
			failed = page.Moment(*e.FailedAt)
		}
		table.Rows = append(table.Rows, page.Row{ID: e.ID.String(), Cells: []page.Value{
			page.CodeLink(e.ID.String(), "/failed/"+e.ID.String()), page.Code(e.Topic),
			orderLink(e), page.Text(fmt.Sprint(e.Version)),
			page.Code(e.FailureCode), page.Text(fmt.Sprint(e.RetryCount)), failed, page.Text(page.Shorten(e.FailureReason)),
		}})
	}
	return table
}

// orderLink leads to the order that an event is about, if it is about one.
func orderLink(e operate.Event) page.Value {
	if e.Aggregate != aggregate {
		return page.Code(e.AggregateID)
	}
	return page.CodeLink(e.AggregateID, "/orders/"+url.PathEscape(e.AggregateID))
}
