package outboxpage

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/outbox/operate"
)

// sample is how many rows a preview shows at most.
const sample = 20

// preview keeps which events were chosen, and asks for the decision.
func (p Pages) preview(ctx context.Context, r *page.Request) (page.Result, error) {
	action, all, err := r.ChosenAction(actions...)
	if err != nil {
		return page.Result{}, err
	}
	form := readFilter(r.PostForm)
	if err := form.Problem(); err != nil {
		return page.Result{}, err
	}
	if !all {
		return p.previewSelected(ctx, r, action, form)
	}
	if form.empty() {
		return page.Result{}, page.Errorf(http.StatusUnprocessableEntity,
			"The filter is empty, so it would choose every failed event. Fill in at least one field of the filter.")
	}
	now, err := p.operator.Now(ctx)
	if err != nil {
		return page.Result{}, err
	}
	filter := form.at(now)
	chosen, err := p.operator.Choose(ctx, filter, page.MaxItems)
	if err != nil {
		return page.Result{}, err
	}
	return p.confirm(ctx, r, action, chosen, filter.String(), form.Path(""))
}

func (p Pages) previewSelected(ctx context.Context, r *page.Request, action page.Action, form filterForm) (page.Result, error) {
	ids, err := selectedIDs(r.PostForm["id"])
	if err != nil {
		return page.Result{}, err
	}
	chosen, err := p.operator.Choose(ctx, operate.Filter{Status: operate.Failed, IDs: ids}, page.MaxItems)
	if err != nil {
		return page.Result{}, err
	}
	left := len(ids) - len(chosen.IDs)
	result, err := p.confirm(ctx, r, action, chosen, operate.ByIDs, form.Path(""))
	if err == nil && left > 0 {
		result.Parts = slices.Insert(result.Parts, 0, page.Part(page.Message{
			Level: page.Warn, Title: fmt.Sprintf("%s left out.", p.Noun.Count(left)),
			Text: "They are not failed any more: somebody has decided about them since you loaded the list.",
		}))
	}
	return result, err
}

// selectedIDs returns the ids of the selected rows, each once.
func selectedIDs(values []string) (ids []uuid.UUID, err error) {
	if len(values) == 0 {
		return nil, page.Errorf(http.StatusUnprocessableEntity, "The field id is empty: select at least one event.")
	}
	for _, value := range values {
		id, err := uuid.Parse(value)
		if err != nil {
			return nil, page.Errorf(http.StatusUnprocessableEntity, "The field id has a value that is not the id of an event.")
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(ids), nil
}

func (p Pages) confirm(
	ctx context.Context, r *page.Request, action page.Action, chosen operate.Choice, filter, cancel string,
) (page.Result, error) {
	if len(chosen.IDs) == 0 {
		result := page.Show("Nothing to "+action.Name, page.Message{
			Title: "Nothing that has failed matches, so there is nothing to decide.", Links: []page.Link{{Text: "Back to the list", To: cancel}},
		})
		result.Status = http.StatusUnprocessableEntity
		return result, nil
	}
	first := operate.Filter{Status: operate.Failed, IDs: chosen.IDs[:min(sample, len(chosen.IDs))]}
	shown, err := p.operator.Failed(ctx, first, operate.Cursor{}, sample)
	if err != nil {
		return page.Result{}, err
	}
	// At is kept, because an event that fails again is not what the user has seen.
	preview := page.Preview{
		Action: action.Name, Filter: filter, Items: operate.IDs(chosen.IDs), Data: chosen.At, Matching: chosen.Matching, About: chosen.More,
	}
	form, err := p.page.Preview(r, preview, page.Confirm{
		Post: "/failed/decide", Verb: action.Text, Danger: action.Danger, Noun: string(p.Noun), Cancel: cancel,
	})
	if err != nil {
		return page.Result{}, err
	}
	caption := "The chosen " + string(p.Noun) + "s"
	if len(chosen.IDs) > sample {
		caption = fmt.Sprintf("The first %d of the chosen %ss", sample, p.Noun)
	}
	return page.Show(action.Text+" these "+string(p.Noun)+"s?", form, p.eventsTable(caption, shown)), nil
}

func (p Pages) decide(ctx context.Context, r *page.Request) (page.Result, error) {
	return p.page.Decide(ctx, r, func(ctx context.Context, decision uuid.UUID, preview page.Preview, report func(int)) error {
		by := operate.By{Decision: decision, Operator: r.User.Name, Via: operate.Page, Filter: preview.Filter}
		return p.change(ctx, by, preview, report)
	})
}

// change decides about the events of a preview that have not changed since.
func (p Pages) change(ctx context.Context, by operate.By, preview page.Preview, report func(int)) error {
	ids, err := selectedIDs(preview.Items)
	if err != nil {
		return err
	}
	operator := p.operator.AsOf(preview.Data.(time.Time)) //nolint:forcetypeassert // confirm has set it
	decide := map[string]func(context.Context, operate.By, []uuid.UUID) (operate.Result, error){
		replay.Name: operator.Replay, discard.Name: operator.Discard,
	}[preview.Action]
	done := 0
	var refused []operate.Refusal
	for batch := range slices.Chunk(ids, cli.BatchSize) {
		if ctx.Err() != nil {
			return page.Errorf(http.StatusServiceUnavailable,
				"The process was stopped after %d of %d. The others are as they were: make a new preview.", done, len(ids))
		}
		// A batch that has begun is finished, also when the process is asked to stop.
		result, err := decide(context.WithoutCancel(ctx), by, batch)
		if err != nil {
			return &page.Error{
				Status: http.StatusInternalServerError, Cause: err,
				Text: fmt.Sprintf("It is known that %d of %s changed. Then it ended. %s", done, p.Noun.Count(len(ids)), page.Reason(err)),
			}
		}
		done, refused = done+len(result.Changed), append(refused, result.Refused...)
		report(done)
	}
	if len(refused) > 0 {
		return page.Errorf(http.StatusConflict, "%s left as they were, because they have changed since the preview. The first one %s.",
			p.Noun.Count(len(refused)), refused[0].Reason)
	}
	return nil
}
