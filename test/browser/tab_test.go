package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a tab of the browser.
type tab struct {
	*testing.T
	ctx   context.Context
	quiet bool // the browser should complain about nothing

	mu       sync.Mutex
	messages []string // of the console
}

// newPerson opens an empty tab in a new profile: no cookies, no passwords.
func newPerson(t *testing.T) *tab {
	t.Helper()
	return openTab(t, running, chromedp.WithNewBrowserContext())
}

// another opens an empty tab in the window of this one, and in front of it.
func (b *tab) another() *tab {
	b.Helper()
	return openTab(b.T, b.ctx, chromedp.WithNewWindow(false))
}

func openTab(t *testing.T, parent context.Context, options ...chromedp.ContextOption) *tab {
	t.Helper()
	b := &tab{T: t, quiet: true}
	ctx, cancel := chromedp.NewContext(parent, append(options, chromedp.WithListener(b.listen))...)
	b.ctx = ctx
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as this context
		t.Fatal(err)
	}
	t.Cleanup(b.wantQuietConsole)
	return b
}

// listen collects what the browser complains about: scripts that fail, and what the policy of the
// page forbids. Answers with an error are not among it.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.messages = append(b.messages, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.messages = append(b.messages, fmt.Sprintf("console.%s", e.Type))
	case *log.EventEntryAdded:
		if e.Entry.Source != log.EntrySourceNetwork {
			b.messages = append(b.messages, e.Entry.Text)
		}
	}
}

func (b *tab) wantQuietConsole() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.quiet && len(b.messages) > 0 {
		b.Errorf("the browser complains: %q", b.messages)
	}
}

// bounded is the time for one step.
func (b *tab) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, limit)
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// get returns what an action returns.
func get[T any](b *tab, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// visit loads a page, and returns the answer.
func (b *tab) visit(url string) *network.Response {
	b.Helper()
	return get(b, chromedp.NavigateResponse(url))
}

// press clicks a link or a button that loads a page, and returns the answer.
func (b *tab) press(selector string) *network.Response {
	b.Helper()
	return get(b, func(ctx context.Context, _ *chromedp.Target) (*network.Response, error) {
		return chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector)))
	})
}

// write types a text into a field.
func (b *tab) write(selector, text string) {
	b.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// text returns the text of the page as a person sees it.
func (b *tab) text() string {
	b.Helper()
	return get(b, chromedp.Evaluate[string]("document.body.innerText"))
}

// value returns the value of an expression of JavaScript.
func value[T any](b *tab, expression string) T {
	b.Helper()
	return get(b, chromedp.Evaluate[T](expression))
}

// textOf is an expression for the text of an element, or "".
func textOf(selector string) string {
	return fmt.Sprintf("(document.querySelector(%s)?.innerText ?? '')", quoted(selector))
}

// shows is a condition for await.
func shows(selector, text string) string {
	return fmt.Sprintf("%s.includes(%s)", textOf(selector), quoted(text))
}

// is is a condition for await.
func is(selector, text string) string { return textOf(selector) + " === " + quoted(text) }

func quoted(text string) string {
	literal, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(literal)
}

// await waits until a condition holds. It looks each time when something in the page changes.
func (b *tab) await(condition string) {
	b.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	watch := fmt.Sprintf(`new Promise(resolve => {
		const holds = () => Boolean(%s);
		if (holds()) { resolve(true); return; }
		const observer = new MutationObserver(() => { if (holds()) { observer.disconnect(); resolve(true); } });
		observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
	})`, condition)
	for {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](watch, chromedp.EvalAwaitPromise))
		switch {
		case err == nil:
			return
		case ctx.Err() == nil && (strings.Contains(err.Error(), "navigated") || strings.Contains(err.Error(), "destroyed")):
			// the page was loaded again
		default:
			b.Fatalf("%s does not hold: %v\n%s", condition, err, b.text())
		}
	}
}

// want wants the page to contain each text.
func (b *tab) want(texts ...string) {
	b.Helper()
	all := b.text()
	for _, text := range texts {
		if !strings.Contains(all, text) {
			b.Errorf("the page does not show %q:\n%s", text, all)
		}
	}
}

// mark lets wantMark see whether the page was loaded again.
var mark = chromedp.Evaluate[chromedp.Void]("void (window.marked = true)")

func (b *tab) wantMark() {
	b.Helper()
	if !value[bool](b, "window.marked === true") {
		b.Error("the page was loaded again")
	}
}

// visitUntil loads a page again and again until a condition holds: the page says what was true a
// moment ago, and does not change by itself.
func (b *tab) visitUntil(url, condition string) {
	b.Helper()
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(limit); ; <-ticker.C {
		b.visit(url)
		if value[bool](b, condition) {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%s does not hold:\n%s", condition, b.text())
		}
	}
}

// confirm confirms a preview with a count.
func (b *tab) confirm(count string) {
	b.Helper()
	b.write("#count", count)
	b.press("form.confirm button")
}

// button is the selector of a button about the selected rows, or about all.
func button(which, action string) string {
	return fmt.Sprintf("button[name=%q][value=%q]", which, action)
}

func removeAttribute(selector, name string) chromedp.Action[chromedp.Void] {
	return chromedp.RemoveAttribute(chromedp.CSS(selector), name)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
