package page

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestAPreviewIsTakenOnce(t *testing.T) {
	t.Parallel()
	d := newDeciding(t, Config{Demo: true}, nothing)
	preview := d.preview(t)
	answers := make(chan int)
	for range 10 {
		go func() { answers <- d.decide(t, preview, "2").status }()
	}
	for range 10 {
		if status := <-answers; status != http.StatusSeeOther && status != http.StatusNotFound && status != http.StatusConflict {
			t.Errorf("status %d", status)
		}
	}
	if n := d.calls.Load(); n != 1 {
		t.Errorf("the work ran %d times", n)
	}
}

func TestAPreviewIsOfOneUser(t *testing.T) {
	t.Parallel()
	d := newDeciding(t, Config{Users: account(t, "ann", "operate") + account(t, "bob", "operate") + account(t, "carl", "read")}, nothing)
	preview := d.preview(t, as("ann", testPassword))
	d.decide(t, preview, "2", as("bob", testPassword)).want(t, http.StatusNotFound, "does not exist")
	d.decide(t, preview, "2", as("carl", testPassword)).want(t, http.StatusForbidden, "needs the role operate")
	if d.calls.Load() != 0 {
		t.Fatal("another user's decision ran")
	}
	d.decide(t, preview, "2", as("ann", testPassword)).want(t, http.StatusSeeOther, "")
}

func TestPreviewsExpireAndAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := newPreviews(func() time.Time { return now })
	users := 0
	keep := func(items int) (string, error) {
		users++
		id, _, err := p.keep(fmt.Sprint("user ", users), Preview{Items: make([]string, items)})
		return id, err
	}
	wantError := func(what string, err error, status int) {
		t.Helper()
		if shown, ok := errors.AsType[*Error](err); !ok || shown.Status != status {
			t.Errorf("%s: error %v, want status %d", what, err, status)
		}
	}
	_, err := keep(0)
	wantError("no items", err, http.StatusUnprocessableEntity)
	_, err = keep(MaxItems + 1)
	wantError("too many items", err, http.StatusUnprocessableEntity)

	users = 0
	first, err := keep(MaxItems)
	if err != nil {
		t.Fatal(err)
	}
	for range maxPreviews - 1 {
		if _, err := keep(1); err != nil {
			t.Fatal(err)
		}
	}
	_, err = keep(1)
	wantError("too many previews", err, http.StatusServiceUnavailable)

	now = now.Add(previewAge)
	_, err = p.take("user 1", first, "1")
	wantError("at its last moment it is there, with another count", err, http.StatusUnprocessableEntity)
	now = now.Add(1)
	_, err = p.take("user 1", first, "10000")
	wantError("an expired preview", err, http.StatusNotFound)
	if _, err := keep(1); err != nil || len(p.kept) != 1 {
		t.Errorf("error %v, %d previews are kept after the others have expired", err, len(p.kept))
	}
}

func TestOneUserLeavesPreviewsForOthers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := newPreviews(func() time.Time { return now })
	keep := func(user string) (id string) {
		now = now.Add(time.Second)
		id, _, err := p.keep(user, Preview{Items: []string{"a"}})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	other, first, second := keep("bob"), keep("ann"), keep("ann")
	for range maxUserPreviews - 1 {
		keep("ann")
	}
	if len(p.kept) != 1+maxUserPreviews {
		t.Errorf("%d previews are kept", len(p.kept))
	}
	if _, err := p.take("ann", first, "1"); err == nil {
		t.Error("the user's oldest preview is kept")
	}
	for user, id := range map[string]string{"ann": second, "bob": other} {
		if _, err := p.take(user, id, "1"); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// TestAPreviewOfAUserExpires asks for the decision after ten minutes.
func TestAPreviewOfAUserExpires(t *testing.T) {
	t.Parallel()
	d := newDeciding(t, Config{Demo: true}, nothing)
	now := time.Now()
	d.page.previews.now = func() time.Time { return now }
	preview := d.preview(t)
	now = now.Add(10*time.Minute + time.Second)
	d.decide(t, preview, "2").want(t, http.StatusNotFound, "it expired")
	if d.calls.Load() != 0 {
		t.Error("the decision ran")
	}
}
