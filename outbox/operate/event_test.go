package operate_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

// TestShowReportsBlockingAndWaitingEvents, and also shows an event of which parts are missing.
func TestShowReportsBlockingAndWaitingEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.append("1", 1, 2, 3, 4, 5)
	f.appendMany(1)
	alone := f.appendAlone()
	f.publish("now()", ids[0])
	f.fail(ids[1])
	other := f.append("2", 1, 2, 3)
	f.fail(other[0])
	f.exec("UPDATE outbox_queue SET supersedes = true WHERE id = $1", other[1])
	for name, test := range map[string]struct {
		id        uuid.UUID
		blockedBy []uuid.UUID
		waiting   int
	}{
		"published":            {id: ids[0]},
		"failed":               {id: ids[1], waiting: 3},
		"blocked":              {id: ids[2], blockedBy: ids[1:2], waiting: 2},
		"the newest":           {id: ids[4], blockedBy: ids[1:4]},
		"without an aggregate": {id: alone},
		"superseding":          {id: other[1], waiting: 1},
	} {
		d, err := f.operator.Show(t.Context(), test.id)
		if err != nil || d.ID != test.id || !slices.Equal(operate.IDsOf(d.BlockedBy), test.blockedBy) || d.Waiting != test.waiting {
			t.Errorf("%s: %+v, error %v", name, d, err)
		}
		if string(d.Payload) != `{"a": 1}` || d.Headers["h"] != "text" || d.ContentType != "application/json" || d.Seq == 0 {
			t.Errorf("%s: the event is not complete: %+v", name, d)
		}
	}
	if _, err := f.operator.Show(t.Context(), uuid.New()); !errors.Is(err, operate.ErrNoEvent) {
		t.Errorf("an unknown id: error %v, want ErrNoEvent", err)
	}
	// Append stores only texts, but a person may have stored other headers.
	for stored, want := range map[string]string{`{"h": 7}`: "7", `{"h": [1]}`: "[1]", `["h"]`: "", `{"h": null}`: ""} {
		f.exec("UPDATE outbox_events SET headers = $1 WHERE id = $2", stored, alone)
		if d, err := f.operator.Show(t.Context(), alone); err != nil || d.Headers["h"] != want {
			t.Errorf("%s: %v, error %v", stored, d.Headers, err)
		}
	}
	// Without the row of the log, the queue knows the rest. The age counts from the failure.
	f.exec("DELETE FROM outbox_events WHERE id = $1", other[0])
	d, err := f.operator.Show(t.Context(), other[0])
	if err != nil || d.Status != operate.Failed || !d.CreatedAt.IsZero() || d.Topic != "order.created" || d.Age < 3600 || len(d.Payload) != 0 {
		t.Errorf("without its row of the log: %+v, error %v", d, err)
	}
}

// everyStatus has an event of each status of one order, by version.
func (f fixture) everyStatus(order string) []uuid.UUID {
	f.Helper()
	ids := f.append(order, 1, 2, 3, 4, 5, 6, 7)
	f.exec("UPDATE outbox_queue SET retry_count = 2 WHERE id = $1", ids[0])
	f.publish("now()", ids[0])
	f.fail(ids[1], ids[3])
	f.finish(false, ids[1])
	f.finish(true, ids[6])
	f.claim(ids[2])
	f.exec("UPDATE outbox_queue SET available_at = now() + interval '1 hour', retry_count = 1, failure_code = 'refused', failure_reason = 'full' WHERE id = $1", ids[4])
	f.exec("UPDATE outbox_queue SET available_at = 'infinity' WHERE id = $1", ids[5])
	return ids
}

// TestTheHistoryHasWhatHappenedToEachEvent of one order, in each state.
func TestTheHistoryHasWhatHappenedToEachEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.everyStatus("1")
	f.everyStatus("2")
	details, err := f.operator.History(t.Context(), "order", "1", 100)
	must(t, err)
	if len(details) != len(ids) {
		t.Fatalf("%d events", len(details))
	}
	type row struct {
		Status, Code, Reason, Worker                 string
		Attempts                                     int
		Due, Claimed, Failed, Discarded, IsPublished bool
	}
	for i, want := range []row{
		{Status: operate.Published, Attempts: 2, IsPublished: true},
		{Status: operate.Discarded, Attempts: 20, Code: "refused", Reason: "a queue is full", Failed: true, Discarded: true},
		{Status: operate.InProgress, Worker: "worker 1", Due: true, Claimed: true},
		{Status: operate.Failed, Code: "refused", Reason: "a queue is full", Attempts: 20, Failed: true},
		{Status: operate.Pending, Code: "refused", Reason: "full", Attempts: 1, Due: true},
		{Status: operate.Pending},
		{Status: operate.Superseded, Discarded: true},
	} {
		d := details[i]
		got := row{
			d.Status, d.FailureCode, d.FailureReason, d.Worker, d.RetryCount,
			d.DueAt != nil, d.ClaimedUntil != nil, d.FailedAt != nil, d.DiscardedAt != nil, d.PublishedAt != nil,
		}
		if got != want || d.ID != ids[i] || d.Version != i+1 || d.CreatedAt.IsZero() {
			t.Errorf("version %d: %+v, want %+v", i+1, got, want)
		}
	}
	if first, err := f.operator.History(t.Context(), "order", "1", 2); err != nil || !slices.Equal(operate.IDsOf(first), ids[:2]) {
		t.Errorf("the first two are %+v, error %v", first, err)
	}
	if none, err := f.operator.History(t.Context(), "order", "3", 100); len(none) != 0 || err != nil {
		t.Errorf("an unknown order has %v, error %v", none, err)
	}
}

// TestAnEventIsFoundByItsTraceAndByATextOfItsPayload, whatever its letters and bytes are. A search for
// a text is recorded.
func TestAnEventIsFoundByItsTraceAndByATextOfItsPayload(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.append("1", 1)[0]
	f.exec("UPDATE outbox_events SET traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'")
	ids := f.appendMany(3)
	e, err := f.operator.OfTrace(t.Context(), "0AF7651916CD43DD8448EB211C80319C", 1000)
	if err != nil || e.ID != id || e.Aggregate != "order" || e.AggregateID != "1" || e.Version != 1 {
		t.Errorf("%+v, error %v", e, err)
	}
	if e, err := f.operator.OfTrace(t.Context(), "%", 1000); !errors.Is(err, operate.ErrNoEvent) {
		t.Errorf("by an unknown trace: %+v, error %v", e, err)
	}
	f.exec(`UPDATE outbox_events SET payload = convert_to('{"to": "Ännchen.O''Hara@example.com"}', 'UTF8') || '\xff00' WHERE id = $1`, ids[0])
	f.exec(`UPDATE outbox_events SET payload = convert_to('{"to": "back\slash%@example.com"}', 'UTF8') WHERE id = $1`, ids[1])
	for text, want := range map[string][]uuid.UUID{
		"Ännchen.o'hara@EXAMPLE.com": ids[:1], `back\slash%@`: ids[1:2], "k%h": nil, "\\377": nil,
		"@example.com": {ids[1], ids[0]},
	} {
		by := operate.NewDecision("ann", operate.Page, "text")
		found, err := f.operator.WithText(t.Context(), by, text, 1000, 10)
		if err != nil || !slices.Equal(operate.IDsOf(found), want) {
			t.Errorf("%q: found %v, error %v, want %v", text, operate.IDsOf(found), err, want)
		}
		d, err := f.log.Get(t.Context(), by.Decision)
		if err != nil || d.Action != operate.Find || d.Chosen != len(want) || d.FinishedAt == nil {
			t.Errorf("%q: recorded %+v, error %v", text, d, err)
		}
	}
	if _, err := f.operator.WithText(t.Context(), operate.NewDecision("", operate.Page, "text"), "x", 1, 1); err == nil {
		t.Error("nobody has looked into payloads")
	}
}
