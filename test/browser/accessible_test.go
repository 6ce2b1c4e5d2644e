package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

func TestEveryPageIsAccessible(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must(t, err)
	s := newSite(t)
	order := s.place()
	event := s.failEvents(60)[0]
	operator := newPerson(t)

	check := func(name string) {
		t.Helper()
		operator.do(chromedp.Evaluate[chromedp.Void](string(axe) + "\n;void 0")) // not by the page, so its policy does not matter
		for width, scheme := range map[int64]string{360: "light", 1600: "dark"} {
			operator.do(chromedp.EmulateViewport(width, 900), prefer(scheme))
			operator.wantNoViolation(fmt.Sprintf("%s, %d px, %s", name, width, scheme))
			if wide := value[int64](operator, "document.documentElement.scrollWidth"); wide > width {
				t.Errorf("%s: the page is %d px wide in a window of %d px", name, wide, width)
			}
		}
		// The other two differ from these in the colours only.
		operator.do(prefer("light"))
		operator.wantNoViolation(name+", 1600 px, light", colours...)
	}
	for name, address := range map[string]string{
		"overview":         s.orders.page + "/",
		"nothing found":    s.orders.page + "/find?q=nothing",
		"an order's way":   s.orders.page + "/orders/" + order,
		"failed events":    s.orders.page + "/failed?reason=refused",
		"a wrong filter":   s.orders.page + "/failed?event=x",
		"one failed event": s.orders.page + "/failed/" + event.id.String() + "?reveal=1",
		"no decisions":     s.orders.page + "/audit",
	} {
		operator.visit(address)
		check(name)
	}
	operator.visit(s.orders.page + "/failed?reason=refused")
	operator.press(button("all", "discard"))
	check("a preview")
	operator.confirm("60")
	check("a decision")
	operator.visit(s.orders.page + "/audit")
	check("decisions")
}

// prefer chooses the light or the dark colours.
func prefer(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		features := []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	})
}

// violation is what axe-core complains about.
type violation struct {
	ID, Help string
	Nodes    []struct{ HTML, FailureSummary string }
}

var colours = []string{"color-contrast", "link-in-text-block"}

// wantNoViolation runs axe-core with all its rules, or with some.
func (b *tab) wantNoViolation(name string, rules ...string) {
	b.Helper()
	options := map[string]any{"resultTypes": []string{"violations"}}
	if rules != nil {
		options["runOnly"] = rules
	}
	settings, err := json.Marshal(options)
	must(b.T, err)
	found := get(b, chromedp.Evaluate[[]violation](
		fmt.Sprintf("axe.run(document, %s).then(result => result.violations)", settings), chromedp.EvalAwaitPromise))
	for _, v := range found {
		for i, n := range v.Nodes {
			if i == 3 {
				b.Errorf("%s: %s: and %d more", name, v.ID, len(v.Nodes)-i)
				break
			}
			b.Errorf("%s: %s: %s: %s (%s)", name, v.ID, v.Help, n.HTML, n.FailureSummary)
		}
	}
}
