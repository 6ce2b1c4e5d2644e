package browser

import (
	"strings"
	"testing"
)

func TestReplayOfAllThatMatchTakesOnlyWhatThePreviewShowed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.failEvents(1000)
	operator := newPerson(t)
	operator.visit(s.orders.page + "/failed")
	operator.press(`.groups a[href*="reason=refused"]`)
	operator.press(button("all", "replay"))
	operator.want("Replay 1,000 events.", "Type the number of items, 1000")
	late := s.failEvents(1)[0]
	operator.confirm("1000")
	operator.await(shows("main", "Done: 1000 events."))
	operator.want("Replay of 1000 events")
	if n := s.failures(); n != 1 {
		t.Errorf("%d events are failed, want only the one that failed after the preview", n)
	}
	operator.visit(s.orders.page + "/failed/" + late.id.String())
	operator.want("failed", "a queue refused it")
	operator.visit(s.orders.page + "/")
	operator.await(is(node("failed"), "1"))
	operator.await(is(node("waiting"), "0"))
}

// TestTwoOperatorsDecideAtOnce also types a wrong count first.
func TestTwoOperatorsDecideAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.failEvents(2)
	first, second := newPerson(t), newPerson(t)
	for _, operator := range []*tab{first, second} {
		operator.visit(s.orders.page + "/failed?reason=refused")
		operator.press(button("all", "discard"))
		operator.want("Discard 2 events.")
	}
	first.do(removeAttribute("#count", "pattern")) // or the browser would not send a wrong count
	first.confirm("3")
	first.want("must be 2", "Nothing was changed")
	if n := s.failures(); n != 2 {
		t.Errorf("%d events are failed, want 2", n)
	}
	// The form is there again.
	first.confirm("2")
	first.want("Done: 2 events.")
	second.confirm("2")
	second.want("Nothing was changed.", "have changed since the preview")
	second.visit(s.orders.page + "/audit")
	if n := strings.Count(second.text(), "discard"); n != 1 {
		t.Errorf("%d decisions are recorded, want 1:\n%s", n, second.text())
	}
}
