package page

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// MaxItems is how many items one decision changes at most.
const MaxItems = 10_000

const (
	previewAge  = 10 * time.Minute
	maxPreviews = 100
	// maxUserPreviews is how many previews of one user are kept. A further one replaces the oldest. So
	// nobody locks the others out, nor himself.
	maxUserPreviews = 20
)

// Preview is what a user was shown, and what a decision about it may change.
type Preview struct {
	Action string   // "replay" or "discard"
	Filter string   // what was chosen, as the command line would say it
	Items  []string // the ids; at most [MaxItems]
	Data   any      // what the service wants to keep besides the ids; may be nil
	// Matching is how many items match the filter, if it is more than the items; About says that
	// this is an estimate.
	Matching int
	About    bool
}

// previews keeps the previews of a process in memory. After a restart the user makes a new one.
type previews struct {
	now func() time.Time

	mu   sync.Mutex
	kept map[string]keptPreview
}

type keptPreview struct {
	Preview
	user    string
	form    Confirm // what the user was asked
	expires time.Time
}

func newPreviews(now func() time.Time) *previews {
	return &previews{now: now, kept: map[string]keptPreview{}}
}

// keep keeps a preview for its user.
func (p *previews) keep(user string, preview Preview) (id string, expires time.Time, err error) {
	switch n := len(preview.Items); {
	case n == 0:
		return "", time.Time{}, Errorf(http.StatusUnprocessableEntity, "Nothing matches, so there is nothing to decide.")
	case n > MaxItems:
		return "", time.Time{}, Errorf(http.StatusUnprocessableEntity, "One decision takes at most %d items, and these are %d.", MaxItems, n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeExpired()
	p.leaveRoom(user)
	if len(p.kept) >= maxPreviews {
		return "", time.Time{}, Errorf(http.StatusServiceUnavailable,
			"%d previews are open. Try again when some have expired; that takes at most %s.", maxPreviews, previewAge)
	}
	id, expires = rand.Text(), p.now().Add(previewAge)
	p.kept[id] = keptPreview{Preview: preview, user: user, expires: expires}
	return id, expires, nil
}

// take returns a preview and forgets it, so nobody can decide about it twice. If the typed count is
// wrong, the preview stays.
func (p *previews) take(user, id, typed string) (Preview, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeExpired()
	kept, found := p.kept[id]
	if !found || kept.user != user {
		return Preview{}, Errorf(http.StatusNotFound,
			"This preview does not exist any more: it was used, it expired, you made many others, or the service was restarted. Nothing was changed. Make a new one.")
	}
	if count := strconv.Itoa(len(kept.Items)); strings.TrimSpace(typed) != count {
		return Preview{}, Errorf(http.StatusUnprocessableEntity,
			"The field “number of items” must be %s. Nothing was changed.", count)
	}
	delete(p.kept, id)
	return kept.Preview, nil
}

// ask keeps the form of a preview.
func (p *previews) ask(form Confirm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.kept[form.Preview]
	kept.form = form
	p.kept[form.Preview] = kept
}

// asked returns the form of a preview that nobody has decided about yet.
func (p *previews) asked(user, id string) (Confirm, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeExpired()
	kept, found := p.kept[id]
	return kept.form, found && kept.user == user
}

// leaveRoom removes the user's oldest preview if there are too many.
func (p *previews) leaveRoom(user string) {
	var own []string
	for id, kept := range p.kept {
		if kept.user == user {
			own = append(own, id)
		}
	}
	if len(own) >= maxUserPreviews {
		delete(p.kept, slices.MinFunc(own, func(a, b string) int { return p.kept[a].expires.Compare(p.kept[b].expires) }))
	}
}

func (p *previews) removeExpired() {
	now := p.now()
	for id, kept := range p.kept {
		if now.After(kept.expires) {
			delete(p.kept, id)
		}
	}
}
