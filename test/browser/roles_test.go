package browser

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/chromedp"
	"golang.org/x/crypto/bcrypt"
)

const password = "correct horse battery"

func TestRolesAndTheLimitOfLogins(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost+6) // the lowest that is accepted
	must(t, err)
	s := newSite(t, fmt.Sprintf("PAGE_USERS=rita:read:%[1]s\nolga:operate:%[1]s", hash))
	id := texts(s.failEvents(1))
	detail := s.orders.page + "/failed/" + id

	rita := newPerson(t)
	rita.logIn("rita", password)
	rita.visit(s.orders.page + "/failed?reason=refused")
	rita.want(id, "rita (read)")
	if n := value[int](rita, "document.querySelectorAll('main form[method=post]').length"); n != 0 {
		t.Errorf("a reader sees %d forms for decisions", n)
	}
	rita.visit(detail)
	rita.want("it may contain personal data")
	if answer := rita.visit(detail + "?reveal=1"); answer.Status != http.StatusForbidden || strings.Contains(rita.text(), "ada@example.com") {
		t.Errorf("a reader gets personal data: %v\n%s", answer.Status, rita.text())
	}
	if status := rita.post("/failed/preview", "id="+id+"&selected=discard"); status != http.StatusForbidden {
		t.Errorf("a reader's preview is answered with %d", status)
	}
	// The numbers are live with a login, too.
	rita.visit(s.orders.page + "/")
	rita.await(is("[data-live]", "Live"))

	olga := newPerson(t)
	olga.logIn("olga", password)
	olga.visit(detail)
	olga.press(".block a")
	olga.want("ada@example.com")
	olga.visit(s.orders.page + "/failed?reason=refused")
	olga.press(button("all", "discard"))
	// Nobody else may use her preview.
	preview := value[string](olga, "document.querySelector('[name=preview]').value")
	if status := rita.post("/failed/decide", "preview="+preview+"&count=1"); status != http.StatusForbidden {
		t.Errorf("a reader's decision is answered with %d", status)
	}
	olga.confirm("1")
	olga.want("Done: 1 event.", "olga")

	mallory := newPerson(t)
	mallory.logIn("olga", "a wrong password")
	// A browser may ask for an icon, too, with the same password.
	answers := []int64{}
	for range 6 {
		answers = append(answers, mallory.visit(s.orders.page+"/").Status)
	}
	if answers[0] != http.StatusUnauthorized || answers[5] != http.StatusTooManyRequests {
		t.Errorf("wrong passwords are answered with %v", answers)
	}
	if answer := olga.visit(s.orders.page + "/failed"); answer.Status != http.StatusOK {
		t.Errorf("the limit also stops a user who is logged in: %v", answer.Status)
	}
}

// logIn makes the browser answer each question for a password once, as a person would.
func (b *tab) logIn(name, password string) {
	b.Helper()
	asked := map[fetch.RequestID]bool{}
	answer := func(id fetch.RequestID) *fetch.AuthChallengeResponse {
		if asked[id] {
			return &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseCancelAuth}
		}
		asked[id] = true
		return &fetch.AuthChallengeResponse{
			Response: fetch.AuthChallengeResponseResponseProvideCredentials, Username: name, Password: password,
		}
	}
	target := chromedp.FromContext(b.ctx).Target
	must(b.T, chromedp.Listen(b.ctx, func(event any) {
		switch e := event.(type) {
		case *fetch.EventRequestPaused:
			go func() {
				_, _ = cdp.Call(b.ctx, target, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: e.RequestID})
			}()
		case *fetch.EventAuthRequired:
			response := answer(e.RequestID)
			go func() {
				_, _ = cdp.Call(b.ctx, target, fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{RequestID: e.RequestID, AuthChallengeResponse: response})
			}()
		}
	}))
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, fetch.Enable, fetch.EnableParams{HandleAuthRequests: new(true)})
		return err
	}))
}

// post sends a form of the page's own origin, without a page that has such a form.
func (b *tab) post(path, form string) (status int) {
	b.Helper()
	return get(b, chromedp.Evaluate[int]("fetch("+quoted(path)+", {method: 'POST', body: new URLSearchParams("+quoted(form)+
		")}).then(answer => answer.status)", chromedp.EvalAwaitPromise))
}
