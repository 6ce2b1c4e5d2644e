// Package auditpage shows the decisions of the operators: a list, and each decision with its items.
// Both services have these pages.
package auditpage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/outbox/operate"
)

// pageSize is how many decisions the list shows at once.
const pageSize = 50

// refresh is how often the page of a decision that runs is loaded again.
const refresh = time.Second

// Register adds the pages. Noun names an item: "event" or "message".
func Register(p *page.Page, log *operate.Log, noun cli.Noun) {
	pages := pages{p, log, noun}
	p.Section("/audit", "Decisions")
	p.Handle("GET /audit", page.Read, pages.list)
	p.Handle("GET /audit/{decision}", page.Read, pages.decision)
}

type pages struct {
	page *page.Page
	log  *operate.Log
	noun cli.Noun
}

func (p pages) list(ctx context.Context, r *page.Request) (page.Result, error) {
	before := uuid.Nil
	if text := r.URL.Query().Get("before"); text != "" {
		var err error
		if before, err = uuid.Parse(text); err != nil {
			return page.Result{}, page.Errorf(http.StatusUnprocessableEntity, "The parameter before is not the id of a decision.")
		}
	}
	found, err := p.log.List(ctx, before, pageSize+1)
	if err != nil {
		return page.Result{}, err
	}
	pager := page.Pager{}
	if before != uuid.Nil {
		pager.First = "/audit"
	}
	if len(found) > pageSize {
		found = found[:pageSize]
		pager.Next = "/audit?before=" + found[pageSize-1].Decision.String()
	}
	table := page.Table{
		Caption: "Decisions of operators, newest first",
		Columns: []string{"When", "Who", "Where", "Action", "Chosen by", "Chosen", "Changed", "State"},
		Empty:   "No operator has decided anything, or it is longer ago than AUDIT_RETENTION.",
	}
	for _, d := range found {
		table.Rows = append(table.Rows, page.Row{ID: d.Decision.String(), Cells: []page.Value{
			{Time: d.At, To: "/audit/" + d.Decision.String()},
			page.Text(d.Operator), page.Text(d.Via.Text()),
			page.Text(string(d.Action)), page.Code(d.Filter), number(d.Chosen), p.done(d), p.state(d),
		}})
	}
	return page.Show("Decisions", table, pager), nil
}

// number is a count in a table.
func number(n int) page.Value { return page.Text(strconv.Itoa(n)) }

func (p pages) done(d operate.Decision) page.Value {
	if d.Unfinished > 0 {
		return page.Text(fmt.Sprintf("%d known", d.Done))
	}
	return number(d.Done)
}

func (p pages) state(d operate.Decision) page.Value {
	progress, known := p.page.Progress(d.Decision)
	switch {
	case known && progress.Running:
		return page.Value{Text: "running", Level: page.Warn}
	case d.Unfinished > 0:
		return page.Value{Text: "has no recorded end", Level: page.Bad}
	case d.Done < d.Chosen || progress.Error != "":
		return page.Value{Text: "ended early", Level: page.Warn}
	default:
		return page.Value{Text: "done", Level: page.OK}
	}
}

func (p pages) decision(ctx context.Context, r *page.Request) (page.Result, error) {
	id, err := uuid.Parse(r.PathValue("decision"))
	if err != nil {
		return page.Result{}, page.Errorf(http.StatusNotFound, "This is not the id of a decision.")
	}
	progress, known := p.page.Progress(id)
	found, err := p.log.Get(ctx, id)
	if errors.Is(err, operate.ErrNoDecision) && known {
		return p.notRecorded(progress), nil
	}
	if errors.Is(err, operate.ErrNoDecision) {
		return page.Result{}, page.Errorf(http.StatusNotFound, "There is no such decision, or it is longer ago than AUDIT_RETENTION.")
	}
	if err != nil {
		return page.Result{}, err
	}
	result := page.Show(p.title(found), p.messages(found, progress)...)
	if progress.Running {
		result.Refresh = refresh
	}
	result.Parts = append(result.Parts, p.fields(found))
	items, err := p.items(ctx, r, id)
	result.Parts = append(result.Parts, items...)
	return result, err
}

// notRecorded is a decision whose first batch is not recorded: it has changed nothing.
func (p pages) notRecorded(progress page.Progress) page.Result {
	result := page.Show("Decision")
	if progress.Running {
		result.Refresh = refresh
		result.Parts = append(result.Parts, page.Message{
			Title: "It has begun.", Text: "Nothing is changed yet. This page loads itself again until it has ended.",
		})
		return result
	}
	text := "None of the chosen " + string(p.noun) + "s was changed, so nothing is recorded."
	result.Parts = append(result.Parts, page.Message{Level: page.Warn, Title: "Nothing was changed.", Text: join(progress.Error, text)})
	return result
}

// nounOf names an item of a decision.
func (p pages) nounOf(action operate.Action) cli.Noun {
	if action == operate.Pause || action == operate.Resume {
		return "topic"
	}
	return p.noun
}

func (p pages) title(d operate.Decision) string {
	action := string(d.Action)
	return strings.ToUpper(action[:1]) + action[1:] + " of " + p.nounOf(d.Action).Count(d.Chosen)
}

func (p pages) messages(d operate.Decision, progress page.Progress) (parts []page.Part) {
	switch {
	case progress.Running:
		parts = append(parts, page.Message{
			Title: fmt.Sprintf("It is running: %d of %s.", progress.Done, p.noun.Count(progress.Of)),
			Text:  "You may close this page. It loads itself again until the decision has ended.",
		})
		return parts
	case progress.Error != "":
		parts = append(parts, page.Message{Level: page.Warn, Title: "It ended early.", Text: progress.Error})
	case d.Unfinished == 0 && d.Done == d.Chosen:
		parts = append(parts, page.Message{Level: page.OK, Title: "Done: " + p.nounOf(d.Action).Count(d.Done) + "."})
	}
	if d.Unfinished > 0 {
		parts = append(parts, page.Message{
			Level: page.Bad, Title: fmt.Sprintf("%d of %d batches have no recorded end.", d.Unfinished, d.Batches),
			Text: "At most the items of such a batch were changed, and nothing else. It is still running in another process, " +
				"or its process died, or it lost the broker or the database. Look at each item to see what became of it.",
		})
	}
	if d.Done < d.Chosen && d.Unfinished == 0 {
		parts = append(parts, page.Message{
			Level: page.Warn, Title: fmt.Sprintf("%d of %d were changed.", d.Done, d.Chosen),
			Text: "The others are as they were, because they could not be changed, or the decision ended early.",
		})
	}
	return parts
}

func (p pages) fields(d operate.Decision) page.Fields {
	fields := page.Fields{
		{Name: "Who", Value: page.Text(d.Operator)},
		{Name: "Where", Value: page.Text(d.Via.Text())},
		{Name: "Action", Value: page.Text(string(d.Action))},
		{Name: "Chosen by", Value: page.Code(d.Filter)},
		{Name: "Begun", Value: page.Moment(d.At)},
		{Name: "Ended", Value: page.Text("not recorded")},
		{Name: "Chosen", Value: number(d.Chosen)},
		{Name: "Changed", Value: p.done(d)},
		{Name: "Decision", Value: page.Code(d.Decision.String())},
	}
	if d.FinishedAt != nil {
		fields[5].Value = page.Moment(*d.FinishedAt)
	}
	return fields
}

// items shows the items of one batch, and links to the next batch.
func (p pages) items(ctx context.Context, r *page.Request, decision uuid.UUID) ([]page.Part, error) {
	after, err := uuid.Parse(r.URL.Query().Get("after"))
	if err != nil {
		after = uuid.Nil // the first batch
	}
	batches, err := p.log.Batches(ctx, decision, after, 2)
	if err != nil || len(batches) == 0 {
		return nil, err
	}
	b, path := batches[0], "/audit/"+decision.String()
	table := page.Table{Caption: p.nounOf(b.Action).Count(len(b.Items)) + " of one batch, " + ending(b), Columns: []string{"Item"}}
	for _, item := range b.Items {
		table.Rows = append(table.Rows, page.Row{ID: item, Cells: []page.Value{p.itemValue(b.Action, item)}})
	}
	pager := page.Pager{}
	if after != uuid.Nil {
		pager.First = path
	}
	if len(batches) > 1 {
		pager.Next = path + "?after=" + b.ID.String()
	}
	return []page.Part{table, pager}, nil
}

func ending(b operate.Batch) string {
	if b.Done == nil {
		return "without a recorded end: at most these were changed"
	}
	return fmt.Sprintf("%d changed", *b.Done)
}

// itemValue links to what is known about an item. A topic is not known anywhere else, nor is a key
// of a dead letter without an id.
func (p pages) itemValue(action operate.Action, item string) page.Value {
	if p.nounOf(action) == "topic" || strings.HasPrefix(item, "key:") {
		return page.Code(item)
	}
	return page.CodeLink(item, "/find?q="+url.QueryEscape(item))
}

func join(sentences ...string) string { return strings.TrimSpace(strings.Join(sentences, " ")) }
