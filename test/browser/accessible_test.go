package browser

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// everyPage returns a site with something of everything, and the path of each kind of page.
func everyPage(t *testing.T) (s *site, pages map[string]string) {
	t.Helper()
	s = newSite(t)
	event := s.fail(s.orders, 120, "order.created", `the queue "audit" is full, and refuses what is sent to it`)
	s.fail(s.orders, 3, "order.cancelled", "a reason of many letters without a space: "+fmt.Sprintf("%0200d", 7))
	s.order("ann@example.com", "ben@example.com")
	s.holdPause(s.orders)
	return s, map[string]string{
		"the overview": "", "groups and a list": "list", "events that wait": "list?status=pending&topic=order.created",
		"an event": "event?payload=1&id=" + event, "paused topics": "topics", "no decisions": "decisions", "find": "find",
		"nothing found": "find?q=nothing", "a replay": "decide?action=replay&topic=order.created&reason=refused",
		"a discard": "decide?action=discard&id=" + event, "a pause": "decide?action=pause&topic=*", "no such page": "nothing",
	}
}

// TestEveryPageIsAccessible to axe, in a narrow window and in a wide one, and in both colours.
func TestEveryPageIsAccessible(t *testing.T) {
	t.Parallel()
	s, pages := everyPage(t)
	operator := newPerson(t)
	for name, path := range pages {
		operator.visit(s.orders.page + path)
		operator.wantAccessible(name)
	}
	operator.visit(s.orders.page + "list?status=failed&topic=order.cancelled")
	operator.click("Discard")
	operator.click("Discard")
	operator.wantAccessible("what was decided")
	operator.visit(s.orders.page + "decisions")
	operator.wantAccessible("decisions")
	operator.visit(s.orders.page + "event?id=" + pages["an event"][len("event?payload=1&id="):])
	operator.click("order " + value[string](operator, "document.querySelector('a[href^=aggregate] bdi').innerText.slice(6)"))
	operator.wantAccessible("an order")
	operator.visit(s.orders.page + "find")
	operator.write("text", "ann@example.com\r")
	operator.await("Found")
	operator.wantAccessible("what was found")
}

// wantAccessible wants axe-core to find nothing, and the page to be no wider than its window.
func (b *tab) wantAccessible(name string) {
	b.Helper()
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must(b.T, err)
	b.do(chromedp.Evaluate[chromedp.Void](string(axe) + "\n;void 0")) // not by the page, so its policy does not matter
	for width, scheme := range map[int64]string{380: "light", 1600: "dark"} {
		b.look(width, scheme)
		found := get(b, chromedp.Evaluate[[]struct {
			ID, Help string
			Nodes    []struct{ HTML, FailureSummary string }
		}]("axe.run(document, {resultTypes: ['violations']}).then(result => result.violations)", chromedp.EvalAwaitPromise))
		for _, v := range found {
			b.Errorf("%s, %d px, %s: %s: %s: %d times, first %+v", name, width, scheme, v.ID, v.Help, len(v.Nodes), v.Nodes[0])
		}
		if wide := value[int64](b, "document.documentElement.scrollWidth"); wide > width {
			b.Errorf("%s: the page is %d px wide in a window of %d px", name, wide, width)
		}
	}
}

// TestAKeyboardIsEnough to reach every link, field and button of each page, and to decide.
func TestAKeyboardIsEnough(t *testing.T) {
	t.Parallel()
	s, pages := everyPage(t)
	operator := newPerson(t)
	operator.look(380, "light")
	for name, path := range pages {
		operator.visit(s.orders.page + path)
		all := value[int](operator, "document.querySelectorAll('a, button, select, input:not([type=hidden])').length")
		reached := map[string]bool{}
		for range all + 5 { // and parts that scroll
			operator.press("\t")
			reached[value[string](operator, focused)] = true
		}
		delete(reached, "")
		if len(reached) < all {
			t.Errorf("%s: the keyboard reaches %d of %d, and shows the focus: %v", name, len(reached), all, reached)
		}
	}
	operator.visit(s.orders.page + "topics")
	operator.tabTo("topic")
	operator.press("order.confirmed\r")
	operator.await("Pause?")
	operator.tabTo("why")
	operator.press("the warehouse moves\r")
	operator.await("order.confirmed is paused since", "by anonymous: the warehouse moves.")
	if status := operator.visit(s.orders.page + "decide?action=resume&topic=order.confirmed"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}

// focused is where the focus is, if a person can see it.
const focused = `(() => {
	const e = document.activeElement, style = getComputedStyle(e);
	if (e === document.body || style.outlineStyle === "none" && parseFloat(style.outlineWidth) < 2) { return ""; }
	return e.matches("a, button, select, input") ? String([...document.querySelectorAll("a, button, select, input")].indexOf(e)) : "";
})()`

// tabTo presses the key Tab until the field has the focus.
func (b *tab) tabTo(field string) {
	b.Helper()
	for range 50 {
		if value[string](b, "document.activeElement.name ?? ''") == field {
			return
		}
		b.press("\t")
	}
	b.Fatalf("the key Tab does not lead to %s", field)
}
