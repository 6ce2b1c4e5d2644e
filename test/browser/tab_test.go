package browser

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"example.com/transactional-outbox/test/env/check"
)

// tab is a tab of the browser.
type tab struct {
	*testing.T
	ctx context.Context
}

// newPerson opens a tab in a new profile: no cookies, no passwords.
func newPerson(t *testing.T) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(running, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	must(t, chromedp.Do(ctx)) // the tab lives as long as this context
	return &tab{t, ctx}
}

// get returns what an action returns.
func get[T any](b *tab, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, check.Limit)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	must(b.T, err)
	return value
}

func (b *tab) do(action chromedp.Action[chromedp.Void]) {
	b.Helper()
	get(b, action)
}

// paused is the query with which a page does not load itself again.
const paused = "?paused=1"

// visit loads a page.
func (b *tab) visit(url string) {
	b.Helper()
	get(b, chromedp.NavigateResponse(url))
}

// click clicks the first link or button with this text, which loads a page, and returns the answer.
func (b *tab) click(text string) *network.Response {
	b.Helper()
	return get(b, func(ctx context.Context, _ *chromedp.Target) (*network.Response, error) {
		return chromedp.RunResponse(ctx, chromedp.Click(fmt.Sprintf("//*[self::a or self::button][normalize-space()='%s']", text)))
	})
}

// write types a text into a field.
func (b *tab) write(field, text string) {
	b.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(fmt.Sprintf("[name=%q]", field)), text))
}

// press presses keys.
func (b *tab) press(keys string) {
	b.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// value returns the value of an expression of JavaScript.
func value[T any](b *tab, expression string) T {
	b.Helper()
	return get(b, chromedp.Evaluate[T](expression))
}

const textOfPage = "document.body?.innerText ?? ''"

// want wants the page to have each text.
func (b *tab) want(texts ...string) {
	b.Helper()
	if all := value[string](b, textOfPage); !has(all, texts) {
		b.Errorf("the page does not show %q:\n%s", texts, all)
	}
}

// await waits until the page has all texts: it loads itself again, or another one is being loaded.
func (b *tab) await(texts ...string) {
	b.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(check.Limit); ; <-ticker.C {
		all, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](textOfPage)) // an error: it is being loaded
		if has(all, texts) {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("not within %s: %q in\n%s", check.Limit, texts, all)
		}
	}
}

func has(all string, texts []string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(all, text) })
}

// look sets the width of the window, and the light or the dark colours.
func (b *tab) look(width int64, scheme string) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, 900))
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	}))
}
