package notification

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestP6ALiveLeaseIsNotTakenOver(t *testing.T) {
	t.Parallel()
	a := newDesk(t)
	b := a.process(a.db)
	r := first(uuid.New(), 1)
	a.want(r, Sending, true)
	b.want(again(r), Sending, false)
	a.want(again(r), Sending, true) // its own
}

func TestADeadProcessesLeaseIsTakenOver(t *testing.T) {
	t.Parallel()
	a := newDesk(t)
	b := a.process(a.db)
	r := first(uuid.New(), 1)
	n := a.want(r, Sending, true)
	a.exec("UPDATE notifications SET lease_until = now()")
	b.want(again(r), Sending, true)
	a.want(again(r), Sending, false)

	a.service.Release(t.Context(), r.ID)
	b.want(again(r), Sending, true)
	if owner := scan[string](a, "SELECT lease_token FROM notifications"); owner != b.service.token.String() {
		t.Error("the old process has given the new one's lease back")
	}
	// What the old process knows to be sent is a fact all the same.
	if err := a.service.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	b.want(again(r), Sent, false)
}

func TestP6ALeaseIsRenewedWhileItsHolderLives(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.renewal = 10 * time.Millisecond
	d = d.process(d.db)
	kept, given := d.leased(), d.leased()
	d.service.Release(t.Context(), given.MessageID)
	const left = "SELECT coalesce(extract(epoch FROM lease_until - now()), 0) FROM notifications WHERE message_id = ?"
	for range 2 {
		d.exec("UPDATE notifications SET lease_until = now() + interval '5 seconds' WHERE message_id = ?", kept.MessageID)
		d.eventually("the lease is renewed", func() bool { return scan[float64](d, left, kept.MessageID) > 10 })
	}
	if scan[float64](d, left, given.MessageID) != 0 {
		t.Error("a lease that was given back is renewed")
	}
	if err := d.service.Send(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	if ids := d.service.leases.ids(); len(ids) != 0 {
		t.Errorf("%d leases are renewed when all is sent", len(ids))
	}
}

func TestARenewalGoesOnAfterTheDatabaseWasAway(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.renewal = 10 * time.Millisecond
	d, proxy := d.behind()
	d.leased()
	proxy.Refuse(true)
	proxy.Cut()
	before := proxy.Accepted()
	d.eventually("it tries to renew", func() bool { return proxy.Accepted() > before+2 })
	d.exec("UPDATE notifications SET lease_until = now() + interval '5 seconds'")
	proxy.Refuse(false)
	d.eventually("the lease is renewed", func() bool {
		return scan[bool](d, "SELECT lease_until > now() + interval '10 seconds' FROM notifications")
	})
}

func TestALeaseOutlivesSomeFailedRenewals(t *testing.T) {
	t.Parallel()
	if 3*leaseRenewal > lease {
		t.Errorf("a lease of %s is renewed only each %s", lease, leaseRenewal)
	}
}
