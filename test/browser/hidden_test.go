package browser

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

func TestATabInTheBackgroundClosesItsStream(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	operator := newPerson(t)
	operator.visit(s.orders.page + "/")
	operator.await(is("[data-live]", "Live"))
	s.awaitMetric(s.orders, "page_live_browsers", 1)

	operator.another()
	s.awaitMetric(s.orders, "page_live_browsers", 0)
	s.place()

	operator.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.BringToFront, cdp.Empty{})
		return err
	}))
	s.awaitMetric(s.orders, "page_live_browsers", 1)
	operator.await(is(node("committed"), "1"))
}
