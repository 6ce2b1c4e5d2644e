package browser

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/google/uuid"
)

// hostile is markup, a script in several contexts, characters that turn or hide text, and no space
// at which a line could break.
const hostile = `"'><img src=x onerror=window.attacked=1><script>window.attacked=1</script>{{.}}javascript:window.attacked=1` +
	"\u202egpj.exe\u200b" + `</code></pre></textarea><style>*{display:none}</style>`

// visible is the part of it that must be shown as it is.
const visible = `<img src=x onerror=window.attacked=1><script>window.attacked=1</script>`

func TestHostileValuesAreShownAsText(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	large := strings.Repeat(hostile, 256<<10/len(hostile))
	order := uuid.New()

	event := s.failEvents(1)[0]
	event.id, event.reason = uuid.New(), hostile+hostile
	event.body = map[string]any{"order_id": order.String(), "customer_email": large[:200<<10], hostile: hostile} // the outbox takes 256 KiB
	s.insert(event)

	_, err := s.orders.db.Exec(t.Context(), `INSERT INTO operator_decisions (id, decision, operator, via, action, filter, items)
		VALUES (gen_random_uuid(), $1, $2, 'cli', 'replay', $3, ARRAY[$3])`, decision, hostile, hostile)
	s.must(err)

	operator := newPerson(t)
	operator.do(chromedp.EmulateViewport(360, 800))
	query := url.QueryEscape(hostile)
	for name, address := range map[string]string{
		"decisions":          s.orders.page + "/audit",
		"one decision":       s.orders.page + "/audit/" + decision,
		"failed events":      s.orders.page + "/failed",
		"one failed event":   s.orders.page + "/failed/" + event.id.String() + "?reveal=1",
		"an order's way":     s.orders.page + "/orders/" + order.String(),
		"a filter of events": s.orders.page + "/failed?topic=" + query + "&reason=" + query + "&order=" + query,
		"a search of events": s.orders.page + "/find?q=" + query[:200],
		"an unknown page":    s.orders.page + "/" + url.PathEscape(hostile),
	} {
		operator.visit(address)
		operator.wantHarmless(name)
		switch name {
		case "decisions", "one decision", "failed events", "one failed event":
			if text := operator.text(); !strings.Contains(text, visible) {
				t.Errorf("%s: the page does not show the value:\n%.2000s", name, text)
			}
		}
	}
	operator.visit(s.orders.page + "/failed")
	operator.do(chromedp.Click(chromedp.CSS("tbody input[type=checkbox]")))
	operator.press(button("selected", "discard"))
	operator.wantHarmless("a preview")
	operator.confirm("1")
	operator.wantHarmless("its decision")
	s.wantPolicy()
}

const decision = "0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b"

// wantHarmless wants that nothing of a value works as markup, as a script or as a style.
func (b *tab) wantHarmless(name string) {
	b.Helper()
	for what, bad := range map[string]string{
		"a script has run":                  "window.attacked !== undefined",
		"there is an element of the value":  "document.querySelector('main img, main script, style, [onerror]') !== null",
		"a link is a script":                "[...document.links].some(a => a.protocol === 'javascript:')",
		"a form leads elsewhere":            "[...document.forms].some(f => new URL(f.action).origin !== location.origin)",
		"a character turns the text":        `/[\u202a-\u202e\u2066-\u2069\u200b]/.test(document.body.innerText)`,
		"the page is hidden":                "document.querySelector('footer').offsetHeight === 0",
		"the page is wider than the window": "document.documentElement.scrollWidth > window.innerWidth",
	} {
		if value[bool](b, bad) {
			b.Errorf("%s: %s", name, what)
		}
	}
}

// wantPolicy puts a script and a style into the page, as a value would that is not escaped. It
// wants the policy of the page to forbid them.
func (s *site) wantPolicy() {
	s.Helper()
	operator := newPerson(s.T)
	operator.quiet = false // the browser complains about what the policy forbids
	for _, address := range []string{s.orders.page + "/", s.orders.page + "/failed", s.orders.page + "/nothing"} {
		operator.visit(address)
		operator.do(chromedp.Evaluate[chromedp.Void](`void (() => {
			const script = document.createElement("script");
			script.textContent = "window.attacked = 1";
			document.querySelector("main").innerHTML += "<p onclick='window.attacked = 1'></p><style>footer {display: none}</style>";
			document.querySelector("main").append(script);
			document.querySelector("main p[onclick]").click();
		})()`))
		for what, bad := range map[string]string{
			"a script has run": "window.attacked !== undefined", "a style has worked": "document.querySelector('footer').offsetHeight === 0",
		} {
			if value[bool](operator, bad) {
				s.Errorf("%s: %s", address, what)
			}
		}
	}
}
