package browser

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// everyPage returns a site with something of everything, and the path of each kind of page.
func everyPage(t *testing.T) (s *site, pages map[string]string) {
	t.Helper()
	s = newSite(t)
	id := s.fail(120, "order.created", `the queue "audit" is full, and refuses what is sent to it`)
	s.fail(3, "order.cancelled", "a reason of many letters without a space: "+strings.Repeat("x", 200))
	s.order("ann@example.com", "ben@example.com")
	s.holdPause(s.orders)
	return s, map[string]string{
		"the overview": paused, "groups and a list": "list", "events that wait": "list?status=pending&topic=order.created",
		"an event": "event?payload=1&id=" + id, "an order": "aggregate" + paused + "&type=order&id=" + id, "paused topics": "topics",
		"decisions": "decisions" + paused, "find": "find", "nothing found": "find?q=nothing", "a pause": "decide?action=pause&topic=*",
		"a replay": "decide?action=replay&topic=order.created&reason=refused", "a discard": "decide?action=discard&id=" + id, "no such page": "nothing",
	}
}

// TestEveryPageIsAccessible to axe, in a narrow window and in a wide one, and in both colours.
func TestEveryPageIsAccessible(t *testing.T) {
	t.Parallel()
	s, pages := everyPage(t)
	operator := newPerson(t)
	operator.visit(s.orders.page + "decide?action=discard&topic=order.cancelled")
	operator.click("Discard")
	operator.wantAccessible("what was decided")
	for name, path := range pages {
		operator.visit(s.orders.page + path)
		operator.wantAccessible(name)
	}
	operator.visit(s.orders.page + "find")
	operator.write("text", "ann@example.com\r")
	operator.await("Found")
	operator.wantAccessible("what was found")
}

// wantAccessible wants axe-core to find nothing, the page to be no wider than its window, and its
// policy to allow its style.
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
		if !value[bool](b, "getComputedStyle(document.querySelector('header')).display === 'flex'") {
			b.Errorf("%s has no style", name)
		}
	}
}

// controls are all that a person can use, and focused is the number of the one with the focus, if it
// is marked.
const (
	controls = "[...document.querySelectorAll('a, button, select, input:not([type=hidden])')]"
	focused  = "getComputedStyle(document.activeElement).outlineStyle === 'none' ? -1 : " + controls + ".indexOf(document.activeElement)"
)

// TestAKeyboardIsEnough to reach every link, field and button of each page, and to decide.
func TestAKeyboardIsEnough(t *testing.T) {
	t.Parallel()
	s, pages := everyPage(t)
	operator := newPerson(t)
	for name, path := range pages {
		operator.visit(s.orders.page + path)
		reached, want := map[int]bool{-1: true}, value[int](operator, controls+".length")
		for range want + 5 { // also parts that scroll can have the focus
			operator.press("\t")
			reached[value[int](operator, focused)] = true
		}
		if len(reached)-1 != want {
			t.Errorf("%s: the keyboard reaches %d of %d", name, len(reached)-1, want)
		}
	}
	operator.visit(s.orders.page + "topics")
	operator.tabTo("topic")
	operator.press("order.confirmed\r")
	operator.await("Pause?")
	operator.tabTo("why")
	operator.press("the warehouse moves\r")
	operator.await("order.confirmed has been paused since", "by anonymous: the warehouse moves.")
}

// tabTo presses the key Tab until the field has the focus.
func (b *tab) tabTo(field string) {
	b.Helper()
	for range 50 {
		if value[bool](b, fmt.Sprintf("document.activeElement.name === %q", field)) {
			return
		}
		b.press("\t")
	}
	b.Fatalf("the key Tab does not lead to %s", field)
}
