package page

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/notification-service/internal/consumer"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/outbox/operate"
)

// sample is how many rows a preview shows at most.
const sample = 20

// preview keeps which messages were chosen, and asks for the decision.
func (l letters) preview(ctx context.Context, r *page.Request) (page.Result, error) {
	button, all, err := r.ChosenAction(actions...)
	if err != nil {
		return page.Result{}, err
	}
	form := readPostedFilter(r.PostForm)
	if err := form.Problem(); err != nil {
		return page.Result{}, err
	}
	if all && form.filter.Empty() {
		return page.Result{}, page.Errorf(http.StatusUnprocessableEntity,
			"The filter is empty, so it would choose every message. Fill in at least one field of the filter.")
	}
	snapshot, err := l.snapshot(ctx, previewAge)
	if errors.Is(err, deadletter.ErrReading) {
		return page.Result{}, page.Errorf(http.StatusServiceUnavailable, "The queue is still being read. Nothing was changed. Try again in some seconds.")
	}
	if err != nil {
		return page.Result{}, err
	}
	c := choice{action: operate.Action(button.Name), filter: operate.ByIDs}
	if all {
		c.filter, c.chosen = form.filter.String(), matching(snapshot.Letters, form.filter)
	} else if err := c.selected(snapshot.Letters, r.PostForm[fieldID]); err != nil {
		return page.Result{}, err
	}
	c.leaveOutOld()
	return l.confirm(r, c, snapshot, form.Path(""))
}

// choice is what a preview shows.
type choice struct {
	action  operate.Action
	filter  string
	chosen  []deadletter.Entry
	missing int // selected, and not in the queue any more
	old     int // left out: they may have had their effect
}

// selected chooses the messages of the selected rows.
func (c *choice) selected(entries []deadletter.Entry, keys []string) error {
	if len(keys) == 0 {
		return page.Errorf(http.StatusUnprocessableEntity, "The field id is empty: select at least one message.")
	}
	wanted := map[string]bool{}
	for _, key := range keys {
		wanted[key] = true
	}
	found := map[string]bool{}
	for _, e := range entries {
		if wanted[e.Key] {
			found[e.Key] = true
			c.chosen = append(c.chosen, e)
		}
	}
	c.missing = len(wanted) - len(found)
	return nil
}

// leaveOutOld leaves out what a replay refuses.
func (c *choice) leaveOutOld() {
	if c.action != operate.Replay {
		return
	}
	all := c.chosen
	c.chosen = nil
	for _, e := range all {
		if e.Code == consumer.OutsideDedupeWindow {
			c.old++
		} else {
			c.chosen = append(c.chosen, e)
		}
	}
}

var verbs = map[operate.Action]string{operate.Replay: "Replay", operate.Discard: "Discard"}

func (l letters) confirm(r *page.Request, c choice, snapshot deadletter.Snapshot, cancel string) (page.Result, error) {
	notes := c.notes(snapshot)
	if len(c.chosen) == 0 {
		result := page.Show("Nothing to "+string(c.action), append(notes, page.Message{
			Title: "No message is left, so there is nothing to decide.", Links: []page.Link{{Text: "Back to the list", To: cancel}},
		})...)
		result.Status = http.StatusUnprocessableEntity
		return result, nil
	}
	preview := page.Preview{Action: string(c.action), Filter: c.filter, Matching: len(c.chosen)}
	for _, e := range c.chosen {
		preview.Items = append(preview.Items, e.Key)
	}
	form, err := l.page.Preview(r, preview, page.Confirm{
		Post: "/dead/decide", Verb: verbs[c.action], Danger: c.action == operate.Discard, Noun: "message", Cancel: cancel,
	})
	if err != nil {
		return page.Result{}, err
	}
	rows := lines(c.chosen)
	caption := fmt.Sprintf("All of %s", cli.Noun("message").Count(len(c.chosen)))
	if len(rows) > sample {
		rows, caption = rows[:sample], fmt.Sprintf("The first %d of %d", sample, len(rows))
	}
	return page.Show(fmt.Sprintf("%s these messages?", verbs[c.action]), append(notes, form, lettersTable(caption, rows))...), nil
}

// notes say what the preview does not contain.
func (c choice) notes(snapshot deadletter.Snapshot) (parts []page.Part) {
	note := func(title, text string) {
		parts = append(parts, page.Message{Level: page.Warn, Title: title, Text: text})
	}
	if c.missing > 0 {
		note(cli.Noun("selected row").Count(c.missing)+" left out.",
			"Their messages are not in the queue any more, or somebody else holds them at the moment.")
	}
	if c.old > 0 {
		note(cli.Noun("message").Count(c.old)+" left out.",
			"They are older than INBOX_RETENTION, so they may have had their effect, and a customer may get an e-mail twice. "+
				"Only the command notification-service dlq replay --force sends them.")
	}
	if text := unread(snapshot); text != "" {
		note("This decision is not about the whole queue.", text)
	}
	return parts
}

const (
	// maxSearch is how many messages are read to find the chosen ones. They were among the first
	// MaxRead, and the order of the queue may have changed.
	maxSearch = 2 * deadletter.MaxRead
	// Somebody else who reads the queue holds its messages for some seconds.
	passes    = 3
	passPause = 2 * time.Second
	// maxBlocked is how long a replay waits while the broker takes no messages. Nobody can end the wait
	// on the page, and no other decision can begin.
	maxBlocked = 10 * time.Second
)

func (l letters) decide(ctx context.Context, r *page.Request) (page.Result, error) {
	return l.page.Decide(ctx, r, func(ctx context.Context, decision uuid.UUID, p page.Preview, report func(int)) error {
		by := operate.By{Decision: decision, Operator: r.User.Name, Via: operate.Page, Filter: p.Filter}
		return l.reader.Exclusive(ctx, func() error { return l.change(ctx, by, p, report) })
	})
}

// change changes the messages of a preview that are still in the queue, and no others.
func (l letters) change(ctx context.Context, by operate.By, p page.Preview, report func(int)) error {
	left, changed, refused := map[string]int{}, 0, 0
	for _, key := range p.Items {
		left[key]++
	}
	for pass := range passes {
		if pass > 0 && !pause(ctx, passPause) {
			break
		}
		result, err := deadletter.Change{
			Action: operate.Action(p.Action), By: by, Keys: maps.Clone(left), Limit: maxSearch, MaxBlocked: maxBlocked,
			Recorder: reporting{l.log, &changed, report},
		}.Run(ctx, l.queue)
		refused += len(result.Refused)
		if left = deadletter.Remaining(left, result); err != nil || len(left) == 0 {
			return ended(p, changed, refused, left, err)
		}
	}
	return ended(p, changed, refused, left, context.Cause(ctx))
}

// pause reports whether it waited for all of the time.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// ended says what was not done, and why.
func ended(p page.Preview, changed, refused int, left map[string]int, err error) error {
	missing := 0
	for _, n := range left {
		missing += n
	}
	switch {
	case err != nil:
		return &page.Error{
			Status: http.StatusServiceUnavailable, Cause: err,
			Text: fmt.Sprintf("It is known that %d of %d messages were changed. Then it ended. %s", changed, len(p.Items), reason(err)),
		}
	case missing > 0:
		return page.Errorf(http.StatusConflict,
			"%d of %d messages were not found: somebody else has changed them, or holds them. They were not changed.", missing, len(p.Items))
	case refused > 0:
		return page.Errorf(http.StatusConflict, "%d of %d messages cannot be sent, because no broker would take them. They are still there.", refused, len(p.Items))
	default:
		return nil
	}
}

// reporting reports the progress after each batch.
type reporting struct {
	*operate.Log
	changed *int
	report  func(int)
}

// Finish records the end of a batch.
func (r reporting) Finish(ctx context.Context, row uuid.UUID, done int) error {
	*r.changed += done
	r.report(*r.changed)
	return r.Log.Finish(ctx, row, done)
}
