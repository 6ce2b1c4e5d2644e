package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
)

// deciding is a page with one decision.
type deciding struct {
	page  *Page
	url   string
	work  Work
	calls atomic.Int64
}

func newDeciding(t *testing.T, c Config, work Work) *deciding {
	t.Helper()
	d := &deciding{page: newPage(t, c), work: work}
	d.page.Handle("POST /preview", Operate, func(_ context.Context, r *Request) (Result, error) {
		preview := Preview{Action: "replay", Filter: "ids", Items: r.PostForm["id"], Matching: len(r.PostForm["id"])}
		form, err := d.page.Preview(r, preview, Confirm{Post: "/decide", Verb: "Replay", Noun: "event", Cancel: "/"})
		if err != nil {
			return Result{}, err
		}
		return Show("Preview", form), nil
	})
	d.page.Handle("POST /decide", Operate, func(ctx context.Context, r *Request) (Result, error) {
		return d.page.Decide(ctx, r, func(ctx context.Context, id uuid.UUID, p Preview, report func(int)) error {
			d.calls.Add(1)
			return d.work(ctx, id, p, report)
		})
	})
	d.url = serve(t, d.page)
	return d
}

var previewID = regexp.MustCompile(`name="preview" value="([A-Z0-9]+)"`)

// preview returns the id of a new preview of a and b.
func (d *deciding) preview(t *testing.T, changes ...with) string {
	t.Helper()
	got := ask(t, "POST", d.url+"/preview", "id=a&id=b", changes...)
	found := previewID.FindStringSubmatch(got.body)
	if found == nil {
		t.Fatalf("status %d, no preview in:\n%s", got.status, got.body)
	}
	return found[1]
}

func (d *deciding) decide(t *testing.T, preview, count string, changes ...with) answer {
	t.Helper()
	return ask(t, "POST", d.url+"/decide", url.Values{"preview": {preview}, "count": {count}}.Encode(), changes...)
}

func nothing(context.Context, uuid.UUID, Preview, func(int)) error { return nil }

func TestADecisionChangesWhatThePreviewShowed(t *testing.T) {
	t.Parallel()
	var got Preview
	var id uuid.UUID
	d := newDeciding(t, Config{Demo: true}, func(_ context.Context, decision uuid.UUID, p Preview, report func(int)) error {
		got, id = p, decision
		report(2)
		return nil
	})
	answer := d.decide(t, d.preview(t), " 2 ")
	answer.want(t, http.StatusSeeOther, "")
	if want := "/audit/" + id.String(); answer.header.Get("Location") != want {
		t.Errorf("the redirect is to %s, want %s", answer.header.Get("Location"), want)
	}
	if strings.Join(got.Items, " ") != "a b" || got.Action != "replay" || got.Filter != "ids" {
		t.Errorf("the work got %+v", got)
	}
	if progress, known := d.page.Progress(id); !known || progress != (Progress{Done: 2, Of: 2}) {
		t.Errorf("the progress is %+v, %v", progress, known)
	}
	if id.Version() != 7 {
		t.Errorf("the id is of version %d", id.Version())
	}
}

func TestADecisionNeedsTheTypedCount(t *testing.T) {
	t.Parallel()
	d := newDeciding(t, Config{Demo: true}, nothing)
	preview := d.preview(t)
	for _, typed := range []string{"", "1", "02", "two", "2 2"} {
		d.decide(t, preview, typed).want(t, http.StatusUnprocessableEntity, "must be 2")
	}
	if d.calls.Load() != 0 {
		t.Fatal("a decision ran")
	}
	d.decide(t, preview, "2").want(t, http.StatusSeeOther, "") // the preview is still there
}

// TestAPanicOfADecisionEndsOnlyTheDecision: the next one runs.
func TestAPanicOfADecisionEndsOnlyTheDecision(t *testing.T) {
	t.Parallel()
	d := newDeciding(t, Config{Demo: true}, func(_ context.Context, _ uuid.UUID, _ Preview, report func(int)) error {
		report(1)
		panic("a bug with jane@example.com")
	})
	answer := d.decide(t, d.preview(t), "2")
	answer.want(t, http.StatusSeeOther, "")
	id := uuid.MustParse(strings.TrimPrefix(answer.header.Get("Location"), "/audit/"))
	want := Progress{Done: 1, Of: 2, Error: "The log of the service says why."}
	if progress, _ := d.page.Progress(id); progress != want {
		t.Errorf("the progress is %+v, want %+v", progress, want)
	}
	d.work = nothing
	d.decide(t, d.preview(t), "2").want(t, http.StatusSeeOther, "")
}

func TestAnUnknownErrorShowsNoneOfItsText(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp: lookup db.internal: user=shop")
	for _, test := range []struct {
		err  error
		want string
	}{
		{secret, "The log of the service says why."},
		{fmt.Errorf("jane@example.com: %w", context.Canceled), "The process was stopped."},
		{fmt.Errorf("jane@example.com: %w", context.DeadlineExceeded), "The database does not answer, or it needs too long."},
		{fmt.Errorf("hidden: %w", Errorf(http.StatusConflict, "%d left", 2)), "2 left"},
		{&Error{Text: "1 of 2 changed.", Cause: secret}, "1 of 2 changed."},
	} {
		if got := Reason(test.err); got != test.want {
			t.Errorf("%v: the user reads %q, want %q", test.err, got, test.want)
		}
	}
	if err := (&Error{Text: "1 of 2 changed.", Cause: secret}); !strings.Contains(err.Error(), "db.internal") || !errors.Is(err, secret) {
		t.Errorf("the log does not have the cause: %v", err)
	}
}

func TestOneDecisionRunsAtATime(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}), make(chan struct{})
	d := newDeciding(t, Config{Demo: true}, func(context.Context, uuid.UUID, Preview, func(int)) error {
		close(began)
		<-finish
		return nil
	})
	first, second := d.preview(t), d.preview(t)
	answered := make(chan answer)
	go func() { answered <- d.decide(t, first, "2") }()
	<-began
	d.decide(t, second, "2").want(t, http.StatusConflict, "Another decision is running")
	close(finish)
	(<-answered).want(t, http.StatusSeeOther, "")
	d.work = nothing
	d.decide(t, second, "2").want(t, http.StatusSeeOther, "") // the preview was kept
}

func TestAClosedTabDoesNotStopADecision(t *testing.T) {
	t.Parallel()
	began, finish, ended := make(chan uuid.UUID, 1), make(chan struct{}), make(chan error, 1)
	d := newDeciding(t, Config{Demo: true}, func(ctx context.Context, id uuid.UUID, _ Preview, report func(int)) error {
		report(1)
		began <- id
		<-finish
		ended <- ctx.Err()
		return ctx.Err()
	})
	preview := d.preview(t)
	answered := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(answered)
		d.page.ServeHTTP(w, r)
	}))
	defer server.Close()
	ctx, closeTab := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/decide", strings.NewReader("count=2&preview="+preview))
		if err != nil {
			t.Error(err)
			return
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Close = true
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close() // this machine is slow: the answer came before closeTab
		}
	}()
	id := <-began
	closeTab()
	<-gone
	<-answered // the context of the request has ended
	if progress, _ := d.page.Progress(id); progress != (Progress{Done: 1, Of: 2, Running: true}) {
		t.Errorf("the progress is %+v", progress)
	}
	close(finish)
	if err := <-ended; err != nil {
		t.Errorf("the work's context has ended: %v", err)
	}
}

func TestADecisionEndsAfterItsBatchWhenTheProcessStops(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	ctx, stop := context.WithCancel(t.Context())
	runs := make(chan error, 1)
	go func() { runs <- p.Run(ctx) }()
	for p.decisions.stopped() { // until Run has begun
		runtime.Gosched()
	}
	request := &Request{formRequest(t, p), demoUser}
	finished := false
	id, err := p.decisions.start(t.Context(), request, p.previews, func(ctx context.Context, _ uuid.UUID, _ Preview, report func(int)) error {
		<-ctx.Done()
		report(1) // the batch
		finished = true
		return ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-runs; err != nil || !finished {
		t.Errorf("Run returned %v, and the batch was finished: %v", err, finished)
	}
	want := Progress{Done: 1, Of: 2, Error: "The process was stopped."}
	if progress, _ := p.Progress(id); progress != want {
		t.Errorf("the progress is %+v, want %+v", progress, want)
	}
	_, err = p.decisions.start(t.Context(), &Request{formRequest(t, p), demoUser}, p.previews, nothing)
	if shown, ok := errors.AsType[*Error](err); !ok || shown.Status != http.StatusServiceUnavailable {
		t.Errorf("a decision after the end: %v", err)
	}
}

// formRequest is a request with a new preview's form.
func formRequest(t *testing.T, p *Page) *http.Request {
	t.Helper()
	id, _, err := p.previews.keep(demoUser.Name, Preview{Items: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	form := strings.NewReader(url.Values{"preview": {id}, "count": {"2"}}.Encode())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/decide", form)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return request
}

func TestTheProcessRemembersTheLastDecisions(t *testing.T) {
	t.Parallel()
	d := newDecisions()
	first := uuid.New()
	d.remember(first, Progress{})
	for range maxRemembered {
		d.remember(uuid.New(), Progress{})
	}
	if _, known := d.progress(first); known || len(d.states) != maxRemembered || len(d.order) != maxRemembered {
		t.Errorf("the first is known: %v; %d states, %d ids", known, len(d.states), len(d.order))
	}
}

func TestALongDecisionIsAnsweredBeforeItEnds(t *testing.T) {
	t.Parallel()
	finish := make(chan struct{})
	d := newDeciding(t, Config{Demo: true}, func(context.Context, uuid.UUID, Preview, func(int)) error {
		<-finish
		return nil
	})
	d.decide(t, d.preview(t), "2").want(t, http.StatusSeeOther, "") // after decideWait
	close(finish)
}
