package page

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"example.com/transactional-outbox/internal/postgres"
)

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(functions).ParseFS(templateFiles, "templates/*.html"))

// shown is what the layout shows.
type shown struct {
	Result
	Page     *Page
	User     User
	Path     string
	Now      time.Time
	Contents []template.HTML
}

// answer runs a handler and renders its result.
func (p *Page) answer(w http.ResponseWriter, r *http.Request, role Role, h Handler) {
	user, _ := r.Context().Value(userKey{}).(User)
	request := &Request{r, user}
	if !user.May(role) {
		p.show(r.Context(), w, request, problem(r.Context(), request, Errorf(http.StatusForbidden,
			"%s has the role %s, and this needs the role %s.", user.Name, user.Role, role)))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), QueryTimeout)
	defer cancel()
	result, err := p.handle(ctx, request, h)
	if err != nil {
		result = problem(r.Context(), request, err)
	}
	p.show(r.Context(), w, request, result)
}

func (p *Page) handle(ctx context.Context, r *Request, h Handler) (Result, error) {
	if r.Method == http.MethodPost {
		if err := r.ParseForm(); err != nil {
			if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
				return Result{}, Errorf(http.StatusRequestEntityTooLarge, "The form is too long: it has more than %d bytes.", tooLong.Limit)
			}
			return Result{}, Errorf(http.StatusBadRequest, "The form cannot be read: %s.", err)
		}
	}
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	case <-ctx.Done():
		return Result{}, Errorf(http.StatusServiceUnavailable, "Too many pages are being loaded. Try again.")
	}
	return h(ctx, r)
}

// problem returns the page for an error.
func problem(ctx context.Context, r *Request, err error) Result {
	shown, ok := errors.AsType[*Error](err)
	if !ok || shown.Cause != nil {
		slog.WarnContext(ctx, "a page failed", "path", r.URL.Path, "error", err)
	}
	if !ok {
		shown = &Error{Status: http.StatusInternalServerError, Text: "The service could not do this. Its log says why."}
		if postgres.Unavailable(err) {
			shown = &Error{Status: http.StatusServiceUnavailable, Text: "The database does not answer, or it needs too long. Nothing is shown, because old values could be wrong."}
		}
	}
	result := Show(http.StatusText(shown.Status), Message{Level: Bad, Title: http.StatusText(shown.Status), Text: shown.Text})
	result.Status = shown.Status
	return result
}

func (p *Page) notFound(w http.ResponseWriter, r *http.Request) {
	p.answer(w, r, Read, func(context.Context, *Request) (Result, error) {
		return Result{}, Errorf(http.StatusNotFound, "There is no such page.")
	})
}

// show renders into memory first, so that an error does not follow half a page.
func (p *Page) show(ctx context.Context, w http.ResponseWriter, r *Request, result Result) {
	if result.Redirect != "" {
		http.Redirect(w, r.Request, result.Redirect, http.StatusSeeOther)
		return
	}
	page := shown{Result: result, Page: p, User: r.User, Path: r.URL.Path, Now: time.Now()}
	for _, part := range result.Parts {
		content, err := render(part.template(), part)
		if err != nil {
			fail(ctx, w, r, err)
			return
		}
		page.Contents = append(page.Contents, content)
	}
	document, err := render("layout", page)
	if err != nil {
		fail(ctx, w, r, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	if result.Refresh > 0 {
		header.Set("Refresh", strconv.Itoa(int(result.Refresh.Seconds())))
	}
	if result.Status != 0 {
		w.WriteHeader(result.Status)
	}
	_, _ = w.Write([]byte(document))
}

// render returns what a template makes of data. The template escapes the values, so the result may
// become a part of another template.
func render(name string, data any) (template.HTML, error) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("template %s: %w", name, err)
	}
	return template.HTML(b.String()), nil //nolint:gosec // html/template made it
}

func fail(ctx context.Context, w http.ResponseWriter, r *Request, err error) {
	slog.ErrorContext(ctx, "a page cannot be rendered", "path", r.URL.Path, "error", err)
	http.Error(w, "The page cannot be rendered. The log of the service says why.", http.StatusInternalServerError)
}
