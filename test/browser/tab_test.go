package browser

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
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

// newPerson opens a tab in a new profile: no cookies, no passwords.
func newPerson(t *testing.T) *tab {
	t.Helper()
	b := &tab{T: t, quiet: true}
	ctx, cancel := chromedp.NewContext(running, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.listen))
	b.ctx = ctx
	t.Cleanup(cancel)
	must(t, chromedp.Do(ctx)) // the tab lives as long as this context
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.quiet && len(b.messages) > 0 {
			b.Errorf("the browser complains: %q", b.messages)
		}
	})
	return b
}

// listen collects what the browser complains about, such as what the policy of the page forbids.
// Answers with an error are not among it.
func (b *tab) listen(event any) {
	if e, ok := event.(*log.EventEntryAdded); ok && e.Entry.Source != log.EntrySourceNetwork {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.messages = append(b.messages, e.Entry.Text)
	}
}

// get returns what an action returns.
func get[T any](b *tab, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	must(b.T, err)
	return value
}

func (b *tab) do(action chromedp.Action[chromedp.Void]) {
	b.Helper()
	get(b, action)
}

// visit loads a page, and returns the status of the answer.
func (b *tab) visit(url string) int64 {
	b.Helper()
	return get(b, chromedp.NavigateResponse(url)).Status
}

// click clicks the first link or button with this text, which loads a page, and returns the status
// of the answer. Of a link that is on every page, it takes the one in the main part.
func (b *tab) click(text string) int64 {
	b.Helper()
	return get(b, func(ctx context.Context, _ *chromedp.Target) (*network.Response, error) {
		return chromedp.RunResponse(ctx, chromedp.Click(fmt.Sprintf("//*[self::a or self::button][normalize-space()='%s']", text)))
	}).Status
}

// write types a text into a field, as the first one that has the focus.
func (b *tab) write(field, text string) {
	b.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(fmt.Sprintf("[name=%q]", field)), text))
}

// press presses keys on the keyboard.
func (b *tab) press(keys string) {
	b.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// value returns the value of an expression of JavaScript.
func value[T any](b *tab, expression string) T {
	b.Helper()
	return get(b, chromedp.Evaluate[T](expression))
}

// text returns the text of the page as a person sees it.
func (b *tab) text() string {
	b.Helper()
	return value[string](b, "document.body?.innerText ?? ''")
}

// want wants the page to have each text.
func (b *tab) want(texts ...string) {
	b.Helper()
	all := b.text()
	for _, text := range texts {
		if !strings.Contains(all, text) {
			b.Errorf("the page does not show %q:\n%s", text, all)
		}
	}
}

// await waits until the page has all texts, because it loads itself again.
func (b *tab) await(texts ...string) {
	b.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(limit); ; <-ticker.C {
		// There is an error while the page is being loaded.
		all, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body?.innerText ?? ''"))
		missing := 0
		for _, text := range texts {
			if !strings.Contains(all, text) {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("not within %s: %q in\n%s", limit, texts, all)
		}
	}
}

// look sets the width of the window, and the light or the dark colours.
func (b *tab) look(width int64, scheme string) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, 900))
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}
