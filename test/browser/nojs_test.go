package browser

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

func TestEverythingButLiveNumbersWorksWithoutJavaScript(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	order := s.place()
	s.failEvents(3)
	operator := newPerson(t)
	operator.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	operator.visitUntil(s.orders.page+"/", is(node("published"), "1"))
	operator.want("Without JavaScript the numbers do not change by themselves", "committed", "published")
	if live := value[string](operator, textOf("[data-live]")); live != "" {
		t.Errorf("without a script, the page says %q", live)
	}

	operator.write("#find", order)
	operator.press(".find button")
	operator.want(order, "committed", "published")

	operator.visit(s.orders.page + "/failed")
	operator.write("#filter-topic", created)
	operator.press(".filter button")
	operator.do(chromedp.Click(chromedp.CSS("tbody tr:nth-child(2) input[type=checkbox]")))
	operator.press(button("selected", "replay"))
	operator.want("Replay 1 event.")
	operator.confirm("1")
	operator.want("Done: 1 event.")
	operator.press("nav a[href='/audit']")
	operator.want("replay", "demo", "done")
	operator.press("tbody a")
	operator.want("Replay of 1 event")
}
