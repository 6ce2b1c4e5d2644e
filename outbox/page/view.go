package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/transactional-outbox/outbox/operate"
)

// view is a page, or a redirect.
type view struct {
	Title    string
	Body     string // the name of the template
	Data     any
	Status   int    // 0: 200
	Reloads  bool   // the browser loads it again. Not with a form: its fields would be emptied
	Redirect string // to another page: GET this
}

const reloadSeconds = 10

//go:embed templates/*.html
var files embed.FS

//go:embed style.css
var style []byte

var styleVersion = func() string { sum := sha256.Sum256(style); return hex.EncodeToString(sum[:4]) }()

func serveStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "private, max-age=86400") // its URL has the version
	_, _ = w.Write(style)
}

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"number": number, "masked": masked, "trace": traceOf, "page": pageOf, "list": listOf, "at": at, "ago": ago,
	"verb": verb, "past": func(a operate.Action) string { return past[a] }, "style": func() string { return styleVersion },
	"link": func(text string) bool { return strings.HasPrefix(text, "http") },
	"pair": func(p *Page, events []operate.Event) map[string]any {
		return map[string]any{"Page": p, "Events": events}
	},
}).ParseFS(files, "templates/*.html"))

// All links are relative, and all pages stand side by side. So the page works wherever it is
// mounted.

// write writes a view, or a redirect to one.
func (p *Page) write(w http.ResponseWriter, r request, v view) {
	if v.Redirect != "" {
		w.Header().Set("Location", v.Redirect) // http.Redirect would make it absolute, without the prefix
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	paused := r.query.Has("paused")
	var body bytes.Buffer
	err := templates.ExecuteTemplate(&body, "layout", map[string]any{
		"View": v, "Page": p, "User": r.user, "Decides": r.decides, "Now": time.Now(), "Paused": paused,
		"Toggle": toggled(r.URL, paused), "Seconds": reloadSeconds,
	})
	if err != nil {
		p.Logger.ErrorContext(r.Context(), "the operators' page cannot be written", "path", r.URL.Path, "error", err)
		http.Error(w, "This page cannot be written. The log says why.", http.StatusInternalServerError)
		return
	}
	if v.Reloads && !paused {
		w.Header().Set("Refresh", strconv.Itoa(reloadSeconds))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.Status != 0 {
		w.WriteHeader(v.Status)
	}
	_, _ = body.WriteTo(w)
}

// toggled is the same page with the field paused, or without it.
func toggled(u *url.URL, paused bool) string {
	query := u.Query()
	if query.Del("paused"); !paused {
		query.Set("paused", "1")
	}
	return "?" + query.Encode()
}

// pageOf is a link to a page with fields: pairs of a name and a value. Empty values are left out.
func pageOf(path string, pairs ...any) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if value := fmt.Sprint(pairs[i+1]); value != "" {
			query.Set(fmt.Sprint(pairs[i]), value)
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// listOf is a link to the events of a status and a topic.
func listOf(status, topic string) string { return pageOf("list", "status", status, "topic", topic) }

// counted is a number with a noun, such as "3 events".
func counted(n int, more bool, noun string) string {
	text := number(n)
	if more {
		text = "more than " + text
	}
	if n == 1 && !more {
		return text + " " + noun
	}
	return text + " " + noun + "s"
}

// number separates thousands by commas.
func number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// at is a time for people, and ago how long ago it was, by this machine's clock.
func at(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

func ago(t time.Time) string {
	d := time.Since(t)
	text := "in " + span(-d)
	if d >= 0 {
		text = span(d) + " ago"
	}
	return text
}

// span is a duration with one unit.
func span(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= 2*unit.size {
			return fmt.Sprintf("%d %s", d/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// address is an e-mail address in a text. The name may be in quotes.
var address = regexp.MustCompile(`(?:"[^"]*"|[^\s<>"(),;:]+)@[^\s<>"'(),;:]+`)

// masked hides the names of e-mail addresses: ann@example.com is a***@example.com. A mail server
// repeats addresses in what it says.
func masked(text string) string {
	return address.ReplaceAllStringFunc(text, func(whole string) string {
		at := strings.LastIndex(whole, "@")
		for _, first := range strings.Trim(whole[:at], `"'`) {
			return string(first) + "***" + whole[at:]
		}
		return "***" + whole[at:]
	})
}

// traceOf returns the trace id of a traceparent, or "".
func traceOf(traceparent string) string {
	if parts := strings.Split(traceparent, "-"); len(parts) >= 4 && isTrace(parts[1]) {
		return parts[1]
	}
	return ""
}

var isTrace = regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString

// actionsFor are what an operator can decide about an event.
func actionsFor(e operate.Event) (actions []operate.Action) {
	if e.Status == operate.Failed {
		actions = append(actions, operate.Replay)
	}
	if e.Status == operate.Failed || e.Paused {
		actions = append(actions, operate.Discard)
	}
	return actions
}

// verb is an action as a button says it.
func verb(a operate.Action) string { return capital(string(a)) }

// capital begins a text with a capital letter.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

var past = map[operate.Action]string{
	operate.Replay: "replayed", operate.Discard: "discarded", operate.Republish: "sent again",
	operate.Pause: "paused", operate.Resume: "resumed", operate.Find: "found",
}
