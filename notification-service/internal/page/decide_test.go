package page_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/notification-service/internal/deadletter/deadlettertest"
	mailpage "example.com/transactional-outbox/notification-service/internal/page"
	"example.com/transactional-outbox/outbox/operate"
)

// TestAllThatMatchIsExactlyWhatThePreviewShowed: what comes later stays, also if it is equal.
func TestAllThatMatchIsExactlyWhatThePreviewShowed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	equal := func(p *amqp.Publishing) {
		p.MessageId, p.Headers["failed-at"], p.Headers["failure-code"] = "equal", "2026-01-31T08:00:00Z", "unknown"
	}
	f.Add("", 0, equal)
	chosen := append(f.AddMany(999), "equal")
	others := []string{f.Add("malformed", 0), f.Add("panicked", 0)}
	form := url.Values{"all": {"replay"}, "reason": {"unknown"}}
	preview := f.preview("ann", form, "Replay 1,000 messages", "--reason unknown", "The first 20 of 1000")
	f.Add("", 0, equal)
	later := append(f.AddMany(3), "equal")

	d := f.decide("ann", preview, 1000)
	if d.Operator != "ann" || d.Via != operate.Page || d.Action != operate.Replay || d.Filter != "--reason unknown" ||
		d.Chosen != 1000 || d.Done != 1000 || d.Batches != 10 || d.Unfinished != 0 {
		t.Errorf("recorded is %+v", d)
	}
	sent := f.Drain(f.Service, 1000)
	if !deadlettertest.SameSet(deadlettertest.IDs(sent), chosen) {
		t.Errorf("%d messages are sent, want exactly the 1000 of the preview", len(sent))
	}
	for _, m := range sent {
		if m.Headers["x-operator-decision"] != d.Decision.String() {
			t.Fatalf("%s is sent with %v", m.MessageId, m.Headers)
		}
	}
	if left := deadlettertest.IDs(f.Drain(f.Letters, 6)); !deadlettertest.SameSet(left, append(others, later...)) {
		t.Errorf("left are %v", left)
	}
	f.get("/audit/"+d.Decision.String()).Want(http.StatusOK, "Done: 1000 messages", "ann", "--reason unknown", chosen[0])
}

func TestAnEmptyFilterIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddMany(2)
	f.get("/dead").Want(http.StatusOK, `name="selected"`).WantNot(`name="all"`)
	f.get("/dead?reason=unknown").Want(http.StatusOK, "Replay all 2 that match")
	for _, action := range []string{"replay", "discard"} {
		f.post("ann", "/dead/preview", url.Values{"all": {action}}).
			Want(http.StatusUnprocessableEntity, "Fill in at least one field of the filter")
	}
}

func TestAWrongFormIsAClearError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddMany(1)
	for form, hint := range map[string]string{
		"":                            "The field selected or the field all",
		"selected=burn&id=x":          "must be replay or discard",
		"selected=replay":             "The field id is empty",
		"all=replay&older=yesterday":  "The field older is wrong",
		"all=replay&since=yesterday":  "The field since is wrong",
		"all=replay&reason=none":      "nothing to decide",
		"selected=replay&id=notakey":  "1 selected row left out",
		"all=replay&older=-5s":        "above zero",
		"all=replay&message=nobody":   "nothing to decide",
		"all=replay&key=order.nobody": "nothing to decide",
	} {
		values, err := url.ParseQuery(form)
		f.Check(err)
		f.post("ann", "/dead/preview", values).Want(http.StatusUnprocessableEntity, hint)
	}
	preview := f.preview("ann", url.Values{"all": {"discard"}, "reason": {"unknown"}}, "This cannot be undone")
	f.post("ann", "/dead/decide", url.Values{"preview": {preview}, "count": {"2"}}).Want(http.StatusUnprocessableEntity, "Nothing was changed")
	f.post("ben", "/dead/decide", url.Values{"preview": {preview}, "count": {"1"}}).Want(http.StatusNotFound, "Nothing was changed")
	if len(f.letters()) != 1 || len(f.decisions()) != 0 {
		t.Error("something was decided")
	}
}

func TestSelectedRowsAreDiscarded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Add("malformed", 0)
	keep := f.Add("malformed", 0)
	form := url.Values{"selected": {"discard"}}
	for _, l := range f.letters() {
		if l.ID != keep {
			form.Add("id", l.Key)
		}
	}
	preview := f.preview("ben", form, "Discard 1 message")
	if d := f.decide("ben", preview, 1); d.Filter != operate.ByIDs || d.Action != operate.Discard || d.Done != 1 {
		t.Errorf("recorded is %+v", d)
	}
	if left, sent := f.Contents(1, 0); len(left) != 1 || left[0] != keep || len(sent) != 0 {
		t.Errorf("left are %v, and sent %v", left, sent)
	}
	f.post("ben", "/dead/decide", url.Values{"preview": {preview}, "count": {"1"}}).Want(http.StatusNotFound, "it was used")
}

// TestWhatMayHaveHadItsEffectIsNotReplayed: only the command has --force.
func TestWhatMayHaveHadItsEffectIsNotReplayed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Add("outside-dedupe-window", 0)
	other := f.Add("malformed", 0)
	form := url.Values{"all": {"replay"}, "older": {"1ns"}}
	preview := f.preview("ann", form, "1 message left out", "--force", "Replay 1 message")
	f.decide("ann", preview, 1)
	if left, sent := f.Contents(1, 1); len(left) != 1 || sent[0] != other {
		t.Errorf("left are %v, and sent %v", left, sent)
	}
}

// TestTwoOperatorsChangeEachMessageOnce, also if they have the pages of two processes.
func TestTwoOperatorsChangeEachMessageOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.serve()
	ids := f.AddMany(200)
	form := url.Values{"all": {"replay"}, "reason": {"unknown"}}
	first, second := f.preview("ann", form), other.preview("ben", form)
	paths := make(chan answer, 2)
	go func() {
		paths <- f.post("ann", "/dead/decide", url.Values{"preview": {first}, "count": {"200"}})
	}()
	go func() {
		paths <- other.post("ben", "/dead/decide", url.Values{"preview": {second}, "count": {"200"}})
	}()
	for range 2 {
		a := (<-paths).Want(http.StatusSeeOther)
		for _, process := range []fixture{f, other} {
			if b := process.get(a.Location); b.Status == http.StatusOK {
				process.awaitEnd(a.Location)
			}
		}
	}
	var recorded []string
	for _, d := range f.decisions() {
		batches, err := f.log.Batches(t.Context(), d.Decision, [16]byte{}, 10)
		f.Check(err)
		for _, b := range batches {
			if b.Done == nil || *b.Done != len(b.Items) {
				t.Errorf("%+v", b)
			}
			recorded = append(recorded, b.Items...)
		}
	}
	left, sent := f.Contents(0, 200)
	if len(left) != 0 || !deadlettertest.SameSet(sent, ids) || !deadlettertest.SameSet(recorded, ids) {
		t.Errorf("%d left, %d sent, %d recorded of 200", len(left), len(sent), len(recorded))
	}
}

// TestWhatIsGoneIsNotReplaced: the decision says how many were not found.
func TestWhatIsGoneIsNotReplaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddMany(2)
	preview := f.preview("ann", url.Values{"all": {"replay"}, "reason": {"unknown"}})
	f.Drain(f.Letters, 2)
	other := f.Add("", 0, func(p *amqp.Publishing) { p.Headers = nil })
	a := f.post("ann", "/dead/decide", url.Values{"preview": {preview}, "count": {"2"}}).Want(http.StatusSeeOther)
	f.awaitEnd(a.Location).Want(http.StatusOK, "Nothing was changed", "2 of 2 messages were not found")
	if left, sent := f.Contents(1, 0); len(left) != 1 || left[0] != other || len(sent) != 0 {
		t.Errorf("left are %v, and sent %v", left, sent)
	}
}

// TestWhatSomebodyElseHoldsForAMomentIsFoundLater: another page may read the queue at that moment.
func TestWhatSomebodyElseHoldsForAMomentIsFoundLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddMany(2)
	preview := f.preview("ann", url.Values{"all": {"discard"}, "reason": {"unknown"}})
	held := f.Hold(f.Letters, 2)
	timer := time.AfterFunc(500*time.Millisecond, func() { _ = held[1].Nack(true, true) })
	defer timer.Stop()
	if d := f.decide("ann", preview, 2); d.Done != 2 {
		t.Errorf("recorded is %+v", d)
	}
}

// TestRolesLimitWhatAUserMayDo.
func TestRolesLimitWhatAUserMayDo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Add("malformed", 0, func(p *amqp.Publishing) {
		p.Headers["customer"], p.Headers["failure-reason"] = "Jane", "550 <jane@example.com>: unknown"
	})
	key := f.key()
	rob := func(path string) answer { return f.getAs("rob", path) }
	rob("/dead?reason=malformed").Want(http.StatusOK, "malformed", "(hidden)").WantNot("checkbox", "Replay", "jane@")
	rob("/dead/"+key).Want(http.StatusOK, "hidden").WantNot("Jane", "jane@", "quantity", "reveal=1", "Replay")
	rob("/dead/"+key+"?reveal=1").Want(http.StatusForbidden, "the role operate is needed")
	f.post("rob", "/dead/preview", url.Values{"selected": {"discard"}, "id": {key}}).Want(http.StatusForbidden)
	f.post("rob", "/dead/decide", url.Values{"preview": {"x"}, "count": {"1"}}).Want(http.StatusForbidden)

	f.get("/dead/"+key).Want(http.StatusOK, "reveal=1", "Replay", "Discard").WantNot("Jane", "jane@", "quantity")
	f.get("/dead/"+key+"?reveal=1").Want(http.StatusOK, "Jane", "jane@example.com", "quantity")
	lines := mailpage.Logged.With(key)
	if len(lines) != 1 || !strings.Contains(lines[0], "personal data shown") || !strings.Contains(lines[0], `"operator":"ann"`) {
		t.Errorf("the log has %q", lines)
	}
}
