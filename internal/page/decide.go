package page

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/panics"
	"example.com/transactional-outbox/internal/postgres"
)

// decideWait is how long the answer to a decision waits for its end. A decision that takes longer
// continues in the background. It is longer than the statement timeout, so the user sees at once
// that the database is away.
const decideWait = 5 * time.Second

// maxRemembered is how many decisions the process remembers. The audit keeps all.
const maxRemembered = 100

// Work changes the items of a preview. Decision is the id for the audit. Work calls report with the
// number of changed items after each batch. If ctx ends, Work returns after its batch.
type Work func(ctx context.Context, decision uuid.UUID, preview Preview, report func(done int)) error

// Progress says how far a decision is.
type Progress struct {
	Done, Of int
	Running  bool
	Error    string // why it ended early
}

// Preview keeps a preview, and returns form with the fields about it. The caller sets Post, Verb,
// Danger, Noun and Cancel.
func (p *Page) Preview(r *Request, preview Preview, form Confirm) (Confirm, error) {
	id, expires, err := p.previews.keep(r.User.Name, preview)
	if err != nil {
		return Confirm{}, err
	}
	form.Preview, form.Expires, form.Filter = id, expires, preview.Filter
	form.Count, form.Matching, form.About = len(preview.Items), preview.Matching, preview.About
	p.previews.ask(form)
	return form, nil
}

// Decide starts the work for the preview of the form. It returns a redirect to /audit/{decision}
// when the work has ended, or after five seconds. A process does one decision at a time.
//
// The work has its own context, so a closed tab does not stop it. That context ends when the
// process is asked to stop.
func (p *Page) Decide(ctx context.Context, r *Request, work Work) (Result, error) {
	id, err := p.decisions.start(ctx, r, p.previews, work)
	if err != nil {
		return p.askAgain(ctx, r, err)
	}
	waiting, cancel := context.WithTimeout(r.Context(), decideWait) // ctx ends earlier
	defer cancel()
	p.Await(waiting, id) //nolint:contextcheck // it may wait until the request ends
	return Redirect("/audit/" + id.String()), nil
}

// askAgain shows the form again, below the error, if its preview is still there. The user cannot go
// back to it: browsers do not keep the answer to a form.
func (p *Page) askAgain(ctx context.Context, r *Request, err error) (Result, error) {
	form, found := p.previews.asked(r.User.Name, r.PostFormValue("preview"))
	if !found {
		return Result{}, err
	}
	result := problem(ctx, r, err)
	result.Parts = append(result.Parts, form)
	return result, nil
}

// Await waits until a decision has ended, or ctx has. It does not wait for a decision that this
// process does not remember.
func (p *Page) Await(ctx context.Context, decision uuid.UUID) {
	state, known := p.decisions.state(decision)
	if !known {
		return
	}
	select {
	case <-state.ended:
	case <-ctx.Done():
	}
}

// Progress returns how far a decision is, if this process remembers it.
func (p *Page) Progress(decision uuid.UUID) (Progress, bool) { return p.decisions.progress(decision) }

type decisionState struct {
	Progress
	ended chan struct{} // closed at the end
}

type decisions struct {
	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // the work of a decision ends with Run, not with its request
	current uuid.UUID       // uuid.Nil: none runs
	states  map[uuid.UUID]decisionState
	order   []uuid.UUID // of states, oldest first
	running sync.WaitGroup
}

func newDecisions() *decisions { return &decisions{states: map[uuid.UUID]decisionState{}} }

// run allows decisions until ctx ends. It returns when the last one has ended.
func (d *decisions) run(ctx context.Context) {
	d.mu.Lock()
	d.ctx = ctx
	d.mu.Unlock()
	<-ctx.Done()
	d.mu.Lock()   // a decision that starts now sees that ctx has ended
	d.mu.Unlock() //nolint:staticcheck // see the line above
	d.running.Wait()
}

func (d *decisions) start( //nolint:contextcheck // the work outlives ctx
	ctx context.Context, r *Request, previews *previews, work Work,
) (id uuid.UUID, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil || d.ctx.Err() != nil {
		return id, Errorf(http.StatusServiceUnavailable, "This process takes no decisions now, because it is starting or stopping. Nothing was changed. Try again.")
	}
	if d.current != uuid.Nil {
		return id, Errorf(http.StatusConflict,
			"Another decision is running: /audit/%s. Nothing was changed. Try again when it has ended; your preview is kept.", d.current)
	}
	preview, err := previews.take(r.User.Name, r.PostFormValue("preview"), r.PostFormValue("count"))
	if err != nil {
		return id, err
	}
	id, err = uuid.NewV7()
	if err != nil {
		return id, err
	}
	d.current = id
	d.remember(id, Progress{Of: len(preview.Items), Running: true})
	slog.InfoContext(ctx, "a user decided", "operator", r.User.Name, "action", preview.Action, "items", len(preview.Items), "decision", id)
	running := d.ctx
	d.running.Go(func() {
		d.end(id, panics.Catch(running, func() error {
			return work(running, id, preview, func(n int) { d.report(id, n) })
		}))
	})
	return id, nil
}

func (d *decisions) remember(id uuid.UUID, state Progress) {
	d.states[id], d.order = decisionState{state, make(chan struct{})}, append(d.order, id)
	if len(d.order) > maxRemembered {
		delete(d.states, d.order[0])
		d.order = d.order[1:]
	}
}

func (d *decisions) report(id uuid.UUID, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := d.states[id]
	state.Done = n
	d.states[id] = state
}

func (d *decisions) end(id uuid.UUID, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := d.states[id]
	state.Running = false
	if err != nil {
		state.Error = Reason(err)
		slog.Warn("a decision ended early", "decision", id, "done", state.Done, "of", state.Of, "error", err)
	}
	d.states[id], d.current = state, uuid.Nil
	close(state.ended)
}

func (d *decisions) progress(id uuid.UUID) (Progress, bool) {
	state, found := d.state(id)
	return state.Progress, found
}

func (d *decisions) state(id uuid.UUID) (decisionState, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	state, found := d.states[id]
	return state, found
}

// Reason says why something failed, for any user: an error of [Errorf] as it is, and of others only
// of what kind they are. Their text is for the log. It may name hosts, accounts or personal data.
func Reason(err error) string {
	if shown, ok := errors.AsType[*Error](err); ok {
		return shown.Text
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "The process was stopped."
	case postgres.Unavailable(err):
		return "The database does not answer, or it needs too long."
	default:
		return "The log of the service says why."
	}
}
