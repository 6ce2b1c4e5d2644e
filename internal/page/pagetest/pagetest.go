// Package pagetest asks a page as a browser does: it follows no redirect, and sends forms.
package pagetest

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/bcrypt"

	"example.com/transactional-outbox/internal/page"
)

// Password is that of every user.
const Password = "a long password"

// Users returns PAGE_USERS with ann and ben, who may operate, and rob, who may read.
func Users(t *testing.T) string {
	t.Helper()
	hash, err := hashOnce()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("ann:operate:%s\nben:operate:%s\nrob:read:%s\n", hash, hash, hash)
}

// hashOnce hashes the password once for all tests of a package, because it takes long.
var hashOnce = sync.OnceValues(func() ([]byte, error) {
	return bcrypt.GenerateFromPassword([]byte(Password), 10)
})

// Site is a page that runs until the end of the test.
type Site struct {
	*testing.T
	URL  string
	page *page.Page
}

// AwaitEnd waits until a decision has ended. Location is where its answer redirects to.
func (s Site) AwaitEnd(location string) {
	s.Helper()
	decision, err := uuid.Parse(strings.TrimPrefix(location, "/audit/"))
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	s.page.Await(ctx, decision)
	if state, known := s.page.Progress(decision); !known || state.Running {
		s.Fatalf("the decision %s: known %t, running %t", decision, known, state.Running)
	}
}

// Serve runs a page.
func Serve(t *testing.T, p *page.Page) Site {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return Site{t, server.URL, p}
}

// Answer is what the browser gets.
type Answer struct {
	*testing.T
	Path     string
	Status   int
	Body     string
	Location string
	Refresh  string
}

// Get asks for a page.
func (s Site) Get(user, path string) Answer {
	s.Helper()
	return s.ask(user, http.MethodGet, path, nil)
}

// Post sends a form.
func (s Site) Post(user, path string, form url.Values) Answer {
	s.Helper()
	return s.ask(user, http.MethodPost, path, form)
}

func (s Site) ask(user, method, path string, form url.Values) Answer {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, s.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.Fatal(err)
	}
	request.Close = true
	request.SetBasicAuth(user, Password)
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return Answer{s.T, method + " " + path, response.StatusCode, string(body), response.Header.Get("Location"), response.Header.Get("Refresh")}
}

// Want checks the status, and that the page has these texts.
func (a Answer) Want(status int, texts ...string) Answer {
	a.Helper()
	if a.Status != status {
		a.Fatalf("%s: status %d, want %d:\n%s", a.Path, a.Status, status, a.Main())
	}
	for _, text := range texts {
		if !strings.Contains(a.Text(), text) {
			a.Errorf("%s: no %q in\n%s", a.Path, text, a.Main())
		}
	}
	return a
}

// WantNot checks that the page does not have these texts.
func (a Answer) WantNot(texts ...string) Answer {
	a.Helper()
	for _, text := range texts {
		if strings.Contains(a.Text(), text) {
			a.Errorf("%s: there is %q in\n%s", a.Path, text, a.Main())
		}
	}
	return a
}

// Main is the body without the layout.
func (a Answer) Main() string {
	_, main, _ := strings.Cut(a.Body, "<main")
	return main
}

// Text is the body as a user reads it: with its characters instead of their escapes.
func (a Answer) Text() string { return html.UnescapeString(a.Body) }

// Form returns the hidden fields of the form that leads to a path.
func (a Answer) Form(action string) url.Values {
	a.Helper()
	_, form, found := strings.Cut(a.Body, `action="`+action+`"`)
	if !found {
		a.Fatalf("%s has no form that leads to %s:\n%s", a.Path, action, a.Main())
	}
	form, _, _ = strings.Cut(form, "</form>")
	fields := url.Values{}
	for _, input := range hidden.FindAllStringSubmatch(form, -1) {
		fields.Add(html.UnescapeString(input[1]), html.UnescapeString(input[2]))
	}
	return fields
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// Link returns the path of the link with this relation, such as "next", or "".
func (a Answer) Link(relation string) string {
	found := regexp.MustCompile(`<a href="([^"]*)" rel="` + relation + `"`).FindStringSubmatch(a.Body)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}
