package outbox_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// failed commits events of one aggregate and fails the first of them.
func (b bench) failed(versions ...int) []uuid.UUID {
	b.Helper()
	ids := b.append(uuid.New(), versions...)
	b.exec(`UPDATE outbox_events SET status = 'failed', retry_count = 20, failure_code = 'refused',
		failure_reason = 'a queue is full', failed_at = now() - interval '1 hour',
		available_at = now() + interval '1 hour' WHERE id = ?`, ids[0])
	return ids
}

// whole is everything of the rows, as text.
func (b bench) whole(ids ...uuid.UUID) (rows []string) {
	b.Helper()
	b.read(&rows, "SELECT to_jsonb(o)::text FROM outbox_events o WHERE id IN ? ORDER BY id", ids)
	return rows
}

func entryIDs(entries []outbox.Entry) (ids []uuid.UUID) {
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestP7AReplayedEventIsPublishedBeforeTheOnesItHeldBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.failed(1, 2)
	if held := idsOf(b.claim(10)); len(held) != 0 {
		t.Fatalf("claimed %v behind a failed event", held)
	}
	replayed, err := outbox.NewOperator(b.db).Replay(t.Context(), ids[:1])
	if err != nil || len(replayed) != 1 || replayed[0].ID != ids[0] || replayed[0].Status != "pending" {
		t.Fatalf("replayed %+v, error %v", replayed, err)
	}
	if got, want := b.row(ids[0]), (row{Status: "pending"}); got.DueInSeconds > 0 || got.Status != want.Status || got.RetryCount != 0 || got.FailureCode != "" {
		t.Errorf("got %+v, want %+v, due", got, want)
	}
	if first := idsOf(b.claim(10)); !slices.Equal(first, ids[:1]) {
		t.Fatalf("claimed %v, want %v", first, ids[:1])
	}
	if err := b.store.MarkPublished(t.Context(), ids[:1]); err != nil {
		t.Fatal(err)
	}
	if then := idsOf(b.claim(10)); !slices.Equal(then, ids[1:]) {
		t.Errorf("then claimed %v, want %v", then, ids[1:])
	}
}

func TestP7ADiscardedEventHoldsNothingBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.failed(1, 2)
	discarded, err := outbox.NewOperator(b.db).Discard(t.Context(), ids[:1])
	if err != nil || len(discarded) != 1 || discarded[0].Status != "discarded" {
		t.Fatalf("discarded %+v, error %v", discarded, err)
	}
	if e := discarded[0]; e.FailedAt == nil || e.FailureReason == nil || *e.FailureReason != "a queue is full" {
		t.Errorf("why and when are lost: %+v", e)
	}
	if freed := idsOf(b.claim(10)); !slices.Equal(freed, ids[1:]) {
		t.Errorf("claimed %v, want %v", freed, ids[1:])
	}
}

// TestOnlyAFailedEventIsReplayedOrDiscarded tries both on every other state: above
// all, nothing that was published ever goes back.
func TestOnlyAFailedEventIsReplayedOrDiscarded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.appendMany(4)
	for i, set := range []string{
		"retry_count = 3",
		"status = 'in_progress', lease_token = id, locked_by = 'x'",
		"status = 'published', published_at = now()",
		"status = 'discarded', failed_at = now()",
	} {
		b.exec("UPDATE outbox_events SET "+set+" WHERE id = ?", ids[i])
	}
	before := b.whole(ids...)
	operator := outbox.NewOperator(b.db)
	for name, decide := range map[string]func() ([]outbox.Entry, error){
		"Replay":  func() ([]outbox.Entry, error) { return operator.Replay(t.Context(), append(ids, uuid.New())) },
		"Discard": func() ([]outbox.Entry, error) { return operator.Discard(t.Context(), append(ids, uuid.New())) },
	} {
		if decided, err := decide(); len(decided) != 0 || err != nil {
			t.Errorf("%s returned %v, error %v", name, decided, err)
		}
		if after := b.whole(ids...); !slices.Equal(after, before) {
			t.Errorf("%s changed\n%v to\n%v", name, before, after)
		}
	}
}

// TestTwoOperatorsReplayEachEventOnce gives both the same events, from both ends.
func TestTwoOperatorsReplayEachEventOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.appendMany(200)
	backwards := slices.Clone(ids)
	slices.Reverse(backwards)
	for range 10 {
		b.exec("UPDATE outbox_events SET status = 'failed', failed_at = now()")
		var (
			mu        sync.Mutex
			replayed  []uuid.UUID
			operators sync.WaitGroup
		)
		for _, batch := range [][]uuid.UUID{ids, backwards} {
			operators.Go(func() {
				entries, err := outbox.NewOperator(b.db).Replay(t.Context(), batch)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				replayed = append(replayed, entryIDs(entries)...)
			})
		}
		operators.Wait()
		slices.SortFunc(replayed, compareIDs)
		want := slices.SortedFunc(slices.Values(ids), compareIDs)
		if !slices.Equal(replayed, want) {
			t.Fatalf("%d replayed, want each of %d once", len(replayed), len(want))
		}
	}
}

func TestFindFiltersAndPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var ids []uuid.UUID
	for range 5 {
		ids = append(ids, b.failed(1)...)
	}
	slices.SortFunc(ids, compareIDs)
	young, other := ids[0], ids[1]
	b.exec("UPDATE outbox_events SET failed_at = now() WHERE id = ?", young)
	b.exec("UPDATE outbox_events SET event_key = 'order.cancelled' WHERE id = ?", other)
	pending := b.appendMany(1)
	operator := outbox.NewOperator(b.db)
	now, err := operator.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hourAgo := now.Add(-time.Minute)
	tests := map[string]struct {
		filter outbox.Filter
		after  uuid.UUID
		limit  int
		want   []uuid.UUID
	}{
		"failed":                    {filter: outbox.Filter{Status: "failed", Before: now}, limit: 10, want: ids},
		"a page":                    {filter: outbox.Filter{Status: "failed", Before: now}, limit: 2, want: ids[:2]},
		"the next page":             {filter: outbox.Filter{Status: "failed", Before: now}, after: ids[1], limit: 2, want: ids[2:4]},
		"older":                     {filter: outbox.Filter{Status: "failed", Before: hourAgo}, limit: 10, want: ids[1:]},
		"of a key":                  {filter: outbox.Filter{Status: "failed", EventKey: "order.cancelled", Before: now}, limit: 10, want: ids[1:2]},
		"of another key":            {filter: outbox.Filter{Status: "failed", EventKey: "order.confirmed", Before: now}, limit: 10},
		"pending":                   {filter: outbox.Filter{Status: "pending", Before: now}, limit: 10, want: pending},
		"pending, created long ago": {filter: outbox.Filter{Status: "pending", Before: hourAgo}, limit: 10},
	}
	for name, test := range tests {
		found, err := operator.Find(t.Context(), test.filter, test.after, test.limit)
		if err != nil || !slices.Equal(entryIDs(found), test.want) {
			t.Errorf("%s: found %v, error %v, want %v", name, entryIDs(found), err, test.want)
		}
		n, err := operator.Count(t.Context(), test.filter)
		if wholePage := test.limit == 10; err != nil || wholePage && n != len(test.want) {
			t.Errorf("%s: counted %d, error %v, want %d", name, n, err, len(test.want))
		}
	}
}

func TestAnAgeIsTheDatabasesSinceTheFailure(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.failed(1)[0]
	entries, err := outbox.NewOperator(b.db).Get(t.Context(), id)
	if err != nil || len(entries) != 1 || entries[0].Age < 3600 || entries[0].Age > 3660 {
		t.Errorf("got %+v, error %v, want an age of an hour", entries, err)
	}
}

func TestShowTellsWhatAnEventWaitsForAndWhatItHoldsBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.append(uuid.New(), 1, 2, 3, 4, 5)
	b.appendMany(1)
	b.exec("UPDATE outbox_events SET status = 'published', published_at = now() WHERE id IN ?", ids[:1])
	b.exec("UPDATE outbox_events SET status = 'failed', failed_at = now() WHERE id = ?", ids[1])
	operator := outbox.NewOperator(b.db)
	tests := map[string]struct {
		id        uuid.UUID
		blockedBy []uuid.UUID
		waiting   int
	}{
		"published, so it waits for nothing and nothing for it": {id: ids[0]},
		"failed":     {id: ids[1], waiting: 3},
		"behind it":  {id: ids[2], blockedBy: ids[1:2], waiting: 2},
		"the newest": {id: ids[4], blockedBy: ids[1:4]},
	}
	for name, test := range tests {
		d, err := operator.Show(t.Context(), test.id)
		if err != nil || d.ID != test.id || !slices.Equal(entryIDs(d.BlockedBy), test.blockedBy) || d.Waiting != test.waiting {
			t.Errorf("%s: %+v, error %v", name, d, err)
		}
		if string(d.Payload) != `{"a": 1}` || d.Seq == 0 {
			t.Errorf("%s: not all of the event: %+v", name, d)
		}
	}
	if _, err := operator.Show(t.Context(), uuid.New()); !errors.Is(err, outbox.ErrNoEvent) {
		t.Errorf("an unknown id gives %v", err)
	}
}

// TestP7PublishedEventsComeInTheOrderOfTheirVersions whatever their times and ids,
// and over the border of a page.
func TestP7PublishedEventsComeInTheOrderOfTheirVersions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 20 {
		b.append(uuid.New(), 3, 2, 1) // seq runs against the version
	}
	b.exec("UPDATE outbox_events SET status = 'published', published_at = now() - aggregate_version * interval '1 minute'")
	b.appendMany(1)
	operator := outbox.NewOperator(b.db)
	now, err := operator.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := outbox.Window{Since: now.Add(-time.Hour), Until: now}
	newest := map[uuid.UUID]int{}
	got, after := 0, outbox.Position{}
	for {
		page, err := operator.Published(t.Context(), w, after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if e.AggregateVersion != newest[e.AggregateID]+1 {
				t.Errorf("version %d comes after %d", e.AggregateVersion, newest[e.AggregateID])
			}
			newest[e.AggregateID] = e.AggregateVersion
		}
		got, after = got+len(page), page[len(page)-1].Position
	}
	if n, err := operator.CountPublished(t.Context(), w, outbox.Position{}); got != 60 || n != 60 || err != nil {
		t.Errorf("%d read, %d counted, error %v, want 60", got, n, err)
	}
	w = outbox.Window{Since: now.Add(-150 * time.Second), Until: now.Add(-90 * time.Second), EventKey: "order.created"}
	if n, err := operator.CountPublished(t.Context(), w, outbox.Position{}); n != 20 || err != nil {
		t.Errorf("%d in a narrower window, error %v, want the 20 of version 2", n, err)
	}
}
