package page_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

// decisions returns what operators have decided, the newest first.
func (f fixture) decisions() []operate.Decision {
	f.Helper()
	found, err := f.log.List(f.Context(), uuid.Nil, 100)
	if err != nil {
		f.Fatal(err)
	}
	return found
}

// TestAllThatMatchIsExactlyWhatThePreviewShowed replays 1,000 events. After the preview one more
// fails, one is replayed by somebody else, and one is replayed and fails again.
func TestAllThatMatchIsExactlyWhatThePreviewShowed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	chosen, others := f.fail(1000, "order.created"), f.fail(5, "order.cancelled")
	filter := f.Get("ann", "/failed?topic=order.created").Form("/failed/preview")
	filter.Set("all", "replay")
	shown := f.Post("ann", "/failed/preview", filter).Want(200, "Replay 1,000 events", "--topic order.created")
	f.wantStatus("pending", nil)

	late := f.fail(1, "order.created")
	f.exec("UPDATE outbox_queue SET failed_at = NULL, failure_code = NULL, available_at = now() WHERE id = $1", chosen[0])
	f.exec("UPDATE outbox_queue SET failed_at = now() WHERE id = $1", chosen[1])
	a := f.Post("ann", "/failed/decide", confirmed(shown)).Want(303)
	if !strings.HasPrefix(a.Location, "/audit/") {
		t.Fatalf("it leads to %q", a.Location)
	}
	f.wantStatus("pending", slices.Sorted(slices.Values(append(slices.Clone(chosen[2:]), chosen[0]))))
	f.wantStatus("failed", slices.Sorted(slices.Values(slices.Concat(others, late, chosen[1:2]))))
	f.Get("rob", a.Location).Want(200, "ann", "page", "--topic order.created", "998", "2 events left as they were")
	if d := f.decisions(); len(d) != 1 || d[0].Done != 998 || d[0].Operator != "ann" || d[0].Via != operate.Page || "/audit/"+d[0].Decision.String() != a.Location {
		t.Errorf("recorded %+v", d)
	}
	f.Post("ann", "/failed/decide", confirmed(shown)).Want(404, "Nothing was changed")
}

func TestSelectedEventsAreDiscarded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.fail(4, "order.created")
	form := url.Values{"selected": {"discard"}, "id": {ids[0], ids[2], ids[2], uuid.NewString()}}
	shown := f.Post("ann", "/failed/preview", form).Want(200, "Discard 2 events", "This cannot be undone", "1 event left out", ids[0], ids[2]).WantNot(ids[1])
	wrong := confirmed(shown)
	wrong.Set("count", "3")
	f.Post("ann", "/failed/decide", wrong).Want(422, "must be 2", "Nothing was changed")
	f.Post("ben", "/failed/decide", confirmed(shown)).Want(404) // it is ann's
	f.wantStatus("discarded", nil)
	a := f.Post("ann", "/failed/decide", confirmed(shown)).Want(303)
	f.wantStatus("discarded", []string{ids[0], ids[2]})
	f.Get("ann", a.Location).Want(200, "Done: 2 events.", ids[0], ids[2])
}

func TestOneEventIsReplayedFromItsPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.fail(2, "order.created")
	form := f.Get("ann", "/failed/"+ids[0]).Want(200).Form("/failed/preview")
	form.Set("selected", "replay")
	f.Post("ann", "/failed/decide", f.preview("ann", form)).Want(303)
	f.wantStatus("pending", ids[:1])
	f.Get("ann", "/failed/"+ids[0]).Want(200, "pending").WantNot("/failed/preview")
}

func TestAnEmptyFilterAndAWrongFormAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.fail(2, "order.created")
	f.Get("ann", "/failed").Want(200, "Replay selected").WantNot("all that match…")
	for _, test := range []struct {
		form url.Values
		want string
	}{
		{url.Values{"all": {"replay"}}, "Fill in at least one field of the filter"},
		{url.Values{"all": {"replay"}, "topic": {" "}}, "The filter is empty"},
		{url.Values{"all": {"replay"}, "since": {"0001-01-01T00:00"}}, "The filter is empty"},
		{url.Values{"all": {"replay"}, "until": {"0001-01-01T00:00:00Z"}}, "The filter is empty"},
		{url.Values{"all": {"replay"}, "topic": {"\xff"}}, "The field topic is wrong"},
		{url.Values{"all": {"replay"}, "older": {"1"}}, "The field older is wrong"},
		{url.Values{"all": {"delete"}, "topic": {"order.created"}}, "must be replay or discard"},
		{url.Values{}, "must be replay or discard"},
		{url.Values{"selected": {"replay"}}, "The field id is empty"},
		{url.Values{"selected": {"replay"}, "id": {"' OR 1=1"}}, "The field id has a value"},
		{url.Values{"selected": {"replay"}, "id": {uuid.NewString()}}, "nothing to decide"},
		{url.Values{"all": {"replay"}, "topic": {"order.nothing"}}, "nothing to decide"},
	} {
		f.Post("ann", "/failed/preview", test.form).Want(422, test.want)
	}
	f.Post("ann", "/failed/decide", url.Values{}).Want(404, "Nothing was changed")
	f.Get("ann", "/failed/decide").Want(404) // and not a decision
	f.wantStatus("failed", ids)
}

// TestTwoOperatorsDecideEachEventOnce on the pages of two processes. Each sees how many events the
// other one has taken.
func TestTwoOperatorsDecideEachEventOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.fail(1000, "order.created")
	ann, ben := f, f
	ben.Site = serve(t, f.dbURL)
	form := url.Values{"all": {"replay"}, "topic": {"order.created"}}
	forms := map[string]url.Values{"ann": ann.preview("ann", form), "ben": ben.preview("ben", form)}
	var both sync.WaitGroup
	for user, site := range map[string]fixture{"ann": ann, "ben": ben} {
		both.Go(func() {
			a := site.Post(user, "/failed/decide", forms[user])
			if a.Status != 303 {
				t.Errorf("%s: status %d:\n%s", user, a.Status, a.Main())
				return
			}
			done := 0
			for _, d := range f.decisions() {
				if d.Operator == user {
					done = d.Done
				}
			}
			if left := 1000 - done; left > 0 {
				site.Get(user, a.Location).Want(200, fmt.Sprintf("%d events left as they were", left))
			}
		})
	}
	both.Wait()
	f.wantStatus("pending", ids)
	var items []string
	for _, d := range f.decisions() {
		batches, err := f.log.Batches(t.Context(), d.Decision, uuid.Nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			items = append(items, b.Items...)
		}
	}
	if slices.Sort(items); !slices.Equal(items, ids) {
		t.Errorf("%d events were recorded, want each of %d once", len(items), len(ids))
	}
}

func TestAReaderCannotDecideNorSeePersonalData(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.fail(1, "order.created")
	f.Get("rob", "/failed?topic=order.created").Want(200, ids[0]).WantNot("/failed/preview", "checkbox")
	f.Get("rob", "/failed/"+ids[0]).Want(200, "hidden").WantNot("/failed/preview", "jane@", "reveal=1")
	f.Get("rob", "/failed/"+ids[0]+"?reveal=1").Want(403, "operate").WantNot("jane@")
	form := url.Values{"selected": {"discard"}, "id": ids}
	f.Post("rob", "/failed/preview", form).Want(403, "needs the role operate")
	f.Post("rob", "/failed/decide", f.preview("ann", form)).Want(403)
	f.Get("nobody", "/failed").Want(401)
	f.wantStatus("failed", ids)
}
