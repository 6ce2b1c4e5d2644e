package page

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// allParts returns every kind of part, with a text from outside in every field that may have one.
func allParts(text string) []Part {
	value := Value{Text: text, To: text, Code: true, Level: Bad}
	links := []Link{{text, text}}
	return []Part{
		Heading{text, text},
		Message{Bad, text, text, links},
		Fields{{text, value}, {text, Text(text)}},
		Block{Title: text, Text: text},
		Groups{Title: text, List: []Group{{Text: text, Count: 3, To: text, Note: text, Level: Warn}, {Text: text}}},
		Filter{Path: "/x", Fields: []Input{
			{Name: "key", Label: "Key", Value: text, Hint: "a hint", Error: text},
			{Name: "state", Label: "State", Kind: ChoiceInput, Value: text, Options: []Option{{text, text}}},
		}},
		Table{
			Caption: text, Columns: []string{text}, Rows: []Row{{ID: text, Name: text, Cells: []Value{value}}},
			Choose: &Choose{Post: "/x/preview", Actions: []Action{{"replay", "Replay", true}}, All: text, Filter: []Hidden{{"key", text}}},
		},
		Pager{Next: "/x?after=" + text, Note: text},
		Timeline{Title: text, Steps: []Step{
			{Title: text, At: time.Unix(1, 0), Text: text, Facts: Fields{{text, value}}, Links: links}, {Title: text},
		}},
		Confirm{Post: "/x/decide", Preview: text, Verb: "Replay", Noun: "event", Count: 2, Filter: text, Cancel: text},
		Diagram{
			Service: text, Error: text, Gates: []string{text},
			Nodes: []Node{{Name: text, Label: text, Note: text, Level: Level(text), Path: text}},
		},
	}
}

func TestHostileValuesAreEscaped(t *testing.T) {
	t.Parallel()
	for name, hostile := range map[string]string{
		"markup":       `<img src=x onerror=alert(1)><script>alert(1)</script>`,
		"attribute":    `" autofocus onfocus="alert(1)`,
		"single quote": `' onfocus='alert(1)`,
		"URL":          `javascript:alert(1)`,
		"data URL":     `data:text/html,<script>alert(1)</script>`,
		"close":        `</code></pre></textarea></title><svg onload=alert(1)>`,
		"template":     `{{.}}${alert(1)}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPage(t, Config{Demo: true})
			p.Handle("GET /all", Read, func(context.Context, *Request) (Result, error) { return Show(hostile, allParts(hostile)...), nil })
			got := ask(t, "GET", serve(t, p)+"/all", "")
			got.want(t, http.StatusOK, "alert(1)")
			for _, live := range []string{"<img", "<script>", "<svg", `" autofocus`, `href="javascript:`, `href="data:`, ` onfocus=alert`, `onfocus="`} {
				if strings.Contains(got.body, live) {
					t.Errorf("the page has %q", live)
				}
			}
		})
	}
}

func TestInvisibleCharactersAreShown(t *testing.T) {
	t.Parallel()
	for _, hidden := range []string{"\u202e", "\u2066", "\u200b", "\ufeff", "\x00", "\x1b", "\u0085"} {
		if got := visible("a" + hidden + "b"); got != "a\ufffdb" {
			t.Errorf("%q is shown as %q", hidden, got)
		}
	}
	if got, err := render("value", Text("a\u202eb")); err != nil || got != "<bdi>a\ufffdb</bdi>" {
		t.Errorf("a value is rendered as %q, error %v", got, err)
	}
	if text := "line 1\n\tline 2, äöü 漢字 עברית"; visible(text) != text {
		t.Errorf("%q is shown as %q", text, visible(text))
	}
}

func TestHiddenValuesAreNotSent(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	p.Handle("GET /x", Read, func(context.Context, *Request) (Result, error) {
		return Show("X", Fields{{"to", Value{Text: "ann@example.com", Hidden: true}}}, Block{Title: "payload", Text: "ann@example.com", Hidden: true, Reveal: "?reveal=1"}), nil
	})
	got := ask(t, "GET", serve(t, p)+"/x", "")
	got.want(t, http.StatusOK, `<a href="?reveal=1">`)
	if strings.Contains(got.body, "ann@example.com") {
		t.Error("the hidden value is in the page")
	}
}

func TestErrorsAreShownOrLogged(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	fail := func(path string, err error) {
		p.Handle("GET "+path, Read, func(context.Context, *Request) (Result, error) { return Result{}, err })
	}
	fail("/wrong", Errorf(http.StatusUnprocessableEntity, "The field age is wrong."))
	fail("/secret", errors.New("the password is 1234"))
	fail("/database", context.DeadlineExceeded)
	url := serve(t, p)
	ask(t, "GET", url+"/wrong", "").want(t, http.StatusUnprocessableEntity, "The field age is wrong.")
	ask(t, "GET", url+"/database", "").want(t, http.StatusServiceUnavailable, "The database does not answer")
	got := ask(t, "GET", url+"/secret", "")
	got.want(t, http.StatusInternalServerError, "Its log says why")
	if strings.Contains(got.body, "1234") {
		t.Error("the user sees an internal error")
	}
}

func TestAHandlerHasADeadlineAndFewRunAtOnce(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	var running atomic.Int64
	p.Handle("GET /slow", Read, func(ctx context.Context, _ *Request) (Result, error) {
		if n := running.Add(1); n > maxQueries {
			t.Errorf("%d handlers run at once", n)
		}
		defer running.Add(-1)
		<-ctx.Done()
		return Result{}, ctx.Err()
	})
	p.Handle("GET /hello", Read, hello)
	url := serve(t, p)
	results := make(chan int)
	for range maxQueries + 1 {
		go func() { results <- ask(t, "GET", url+"/slow", "").status }()
	}
	for range maxQueries + 1 {
		if status := <-results; status != http.StatusServiceUnavailable {
			t.Errorf("status %d", status)
		}
	}
	ask(t, "GET", url+"/hello", "").want(t, http.StatusOK, "hello")
}

func TestAssetsHaveNamesOfTheirContent(t *testing.T) {
	t.Parallel()
	url := serve(t, newPage(t, Config{Demo: true}))
	body := ask(t, "GET", url+"/", "").body
	for name, kind := range map[string]string{"page.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"} {
		path, err := assetPath(name)
		if err != nil || !strings.Contains(body, `"`+path+`"`) {
			t.Errorf("the page does not link to %s, error %v", path, err)
		}
		if got := ask(t, "GET", url+path, ""); got.status != http.StatusOK || got.header.Get("Content-Type") != kind {
			t.Errorf("%s: status %d, type %q", path, got.status, got.header.Get("Content-Type"))
		}
		ask(t, "GET", url+"/assets/0123456789abcdef/"+name, "").want(t, http.StatusNotFound, "")
	}
	ask(t, "GET", url+"/assets/x/..%2Fpage.go", "").want(t, http.StatusNotFound, "")
}

func TestTheScriptIsShort(t *testing.T) {
	t.Parallel()
	script, err := assetFiles.ReadFile("assets/live.js")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(script), "\n"); n > 200 {
		t.Errorf("it has %d lines, and may have 200", n)
	}
	if strings.Contains(string(script), "innerHTML") {
		t.Error("it writes markup")
	}
}

func TestATimelineShowsTheTimeBetweenSteps(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	steps := []Step{{}, {At: at}, {}, {At: at.Add(1500 * time.Millisecond)}, {At: at.Add(time.Second)}}
	for i, want := range []string{"", "", "", "+1.5 s", "−500.0 ms"} {
		if got := sinceLastStep(steps, i); got != want {
			t.Errorf("step %d: %q, want %q", i, got, want)
		}
	}
}
