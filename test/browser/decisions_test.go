package browser

import (
	"strings"
	"testing"
)

func TestAPoisonMessageIsSeenReplayedAndDiscarded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.publish(events, s.poison())
	s.publish(events, s.poison())
	healed := s.givenUp()
	s.publish(deadLetters, healed)
	operator := newPerson(t)
	operator.awaitDead(s, 3)
	operator.want("malformed", "transient", "451 try again later")

	// Replay the one that can be read now.
	operator.press(".groups a[href*=transient]")
	operator.want(healed.MessageId, "match")
	operator.press(button("all", "replay"))
	operator.want("Replay 1 message.", healed.MessageId, "--reason transient")
	operator.confirm("1")
	operator.want("Replay of 1 message", "Done: 1 message.", healed.MessageId, "demo", "page", "--reason transient")
	operator.awaitDead(s, 2)
	operator.visit(s.mails.page + "/")
	operator.await(is(node(notificationService, "emailed", "count"), "1"))

	// Discard the others.
	operator.visit(s.mails.page + "/dead?reason=malformed")
	operator.press(button("all", "discard"))
	operator.want("Discard 2 messages.", "This cannot be undone.")
	operator.confirm("2")
	operator.want("Discard of 2 messages", "Done: 2 messages.")
	operator.awaitDead(s, 0)
	operator.want("There are no dead letters.")

	operator.visit(s.mails.page + "/audit")
	operator.want("replay", "discard", "demo", "done")
	// The overview shows both decisions' result.
	operator.visit(s.mails.page + "/")
	operator.await(is(node(notificationService, "dead", "count"), "0"))
}

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
	operator.await(is(node(orderService, "failed", "count"), "1"))
	operator.await(is(node(orderService, "waiting", "count"), "0"))
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
