package notification

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestARecordedNotificationIsLeased(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	r := firstRequest(uuid.New(), 1)
	n := d.want(r, Sending, true)
	if n.MessageID != r.ID || n.OrderID != r.Event.OrderID || n.EventKey != OrderCreated || n.Recipient != "guest@example.com" || n.Event != r.Event {
		t.Errorf("notification %+v of %+v", n, r)
	}
	if now := scan[time.Time](d, "SELECT now()"); n.StartedAt.After(now) || n.StartedAt.Before(now.Add(-time.Minute)) {
		t.Errorf("started at %s, and the database's clock says %s", n.StartedAt, now)
	}
	if seconds := scan[float64](d, "SELECT extract(epoch FROM lease_until - now()) FROM notifications"); seconds < lease.Seconds()/2 || seconds > lease.Seconds() {
		t.Errorf("the lease ends in %v s", seconds)
	}
}

func TestResultsStandInTheOrderOfTheRequests(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	known := firstRequest(uuid.New(), 1)
	d.want(known, Sending, true)
	d.service.Release(t.Context(), known.ID)
	requests := []Request{firstRequest(uuid.New(), 1), repeated(known), firstRequest(uuid.New(), 1), {ID: uuid.New(), Event: newEvent(uuid.New(), 1)}}
	var got []uuid.UUID
	var status []Status
	for _, n := range d.record(requests...) {
		got, status = append(got, n.MessageID), append(status, n.Status)
	}
	for i, r := range requests {
		if got[i] != r.ID {
			t.Errorf("result %d is another message's", i)
		}
	}
	if want := []Status{Sending, Sending, Sending, Pruned}; !slices.Equal(status, want) {
		t.Errorf("states %s, want %s", status, want)
	}
}

func TestP6OnlyTheNewestOfABatchIsSent(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	order := uuid.New()
	var got []Status
	for _, n := range d.record(firstRequest(order, 2), firstRequest(order, 3), firstRequest(uuid.New(), 1), firstRequest(order, 1)) {
		got = append(got, n.Status)
		if n.HasLease != (n.Status == Sending) {
			t.Errorf("%s, has the lease: %t", n.Status, n.HasLease)
		}
	}
	if want := []Status{Superseded, Sending, Sending, Superseded}; !slices.Equal(got, want) {
		t.Errorf("states %s, want %s", got, want)
	}
}

func TestP6ALateEventIsSuperseded(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	order := uuid.New()
	waits := firstRequest(order, 1)
	d.want(waits, Sending, true)
	d.want(firstRequest(order, 3), Sending, true)
	late := d.want(firstRequest(order, 2), Superseded, false)
	d.want(repeated(waits), Superseded, false) // recorded first, and not sent before the next one came
	d.want(repeated(Request{ID: late.MessageID, Event: late.Event}), Superseded, false)
	if ids := d.service.leases.ids(); len(ids) != 1 {
		t.Errorf("leases of %d notifications are renewed, want those of the newest", len(ids))
	}
}

func TestASentOneStaysSent(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	r := firstRequest(uuid.New(), 1)
	n := d.want(r, Sending, true)
	if err := d.service.sendAndMark(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	d.want(repeated(r), Sent, false)
}

// TestAForcedMessageHasItsEffectAnew: the inbox has forgotten it, and an operator forces it.
func TestAForcedMessageHasItsEffectAnew(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	r := firstRequest(uuid.New(), 1)
	for range 2 {
		if err := d.service.sendAndMark(t.Context(), d.want(r, Sending, true)); err != nil {
			t.Fatal(err)
		}
		d.wantStatus(r.ID, Sent)
	}
	if n := scan[int](d, "SELECT attempts FROM notifications"); n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}
}

func TestARejectedOneIsTriedAgainOnlyWhenReplayed(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	r := firstRequest(uuid.New(), 1)
	d.want(r, Sending, true)
	if err := d.service.Reject(t.Context(), r.ID, "550 no such user"); err != nil {
		t.Fatal(err)
	}
	d.want(repeated(r), Rejected, false)
	if reason := scan[string](d, "SELECT failure_reason FROM notifications"); reason != "550 no such user" {
		t.Errorf("rejected for %q", reason)
	}
	replayed := repeated(r)
	replayed.Replayed = true
	if err := d.service.sendAndMark(t.Context(), d.want(replayed, Sending, true)); err != nil {
		t.Fatal(err) // the mailbox exists now
	}
	d.want(replayed, Sent, false)
}

func TestABatchOfAnOrdersEventsInManyTransactions(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	orders := []uuid.UUID{uuid.New(), uuid.New(), uuid.New(), uuid.New()}
	var all sync.WaitGroup
	for version := 1; version <= 8; version++ {
		all.Go(func() { // a deadlock is an error
			var requests []Request
			for i := range orders {
				requests = append(requests, firstRequest(orders[(i+version)%len(orders)], version))
			}
			d.record(requests...)
		})
	}
	all.Wait()
	if n := scan[int](d, "SELECT count(*) FROM order_progress WHERE last_version = 8"); n != len(orders) {
		t.Errorf("%d orders of %d are at their last version", n, len(orders))
	}
	if n := scan[int](d, "SELECT count(*) FROM notifications WHERE order_version = 8 AND status <> 'sending'"); n != 0 {
		t.Errorf("%d of the newest events are not sent", n)
	}
}
