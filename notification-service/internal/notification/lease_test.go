package notification

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestP6ALiveLeaseIsNotTakenOver(t *testing.T) {
	t.Parallel()
	a := newFixture(t)
	b := a.otherProcess(a.db)
	r := firstRequest(uuid.New(), 1)
	a.want(r, Sending, true)
	b.want(repeated(r), Sending, false)
	a.want(repeated(r), Sending, true) // its own
}

func TestADeadProcessesLeaseIsTakenOver(t *testing.T) {
	t.Parallel()
	a := newFixture(t)
	b := a.otherProcess(a.db)
	r := firstRequest(uuid.New(), 1)
	n := a.want(r, Sending, true)
	a.exec("UPDATE notifications SET lease_until = now()")
	b.want(repeated(r), Sending, true)
	a.want(repeated(r), Sending, false)

	a.service.Release(t.Context(), r.ID)
	b.want(repeated(r), Sending, true)
	if owner := scan[string](a, "SELECT lease_token FROM notifications"); owner != b.service.token.String() {
		t.Error("the old process has given the new one's lease back")
	}
	// What the old process knows to be sent is a fact all the same.
	if err := a.service.sendAndMark(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	b.want(repeated(r), Sent, false)
}

func TestP6ALeaseIsRenewedWhileItsHolderLives(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.renewal = 10 * time.Millisecond
	d = d.otherProcess(d.db)
	kept, given := d.leased(), d.leased()
	d.service.Release(t.Context(), given.MessageID)
	const left = "SELECT coalesce(extract(epoch FROM lease_until - now()), 0) FROM notifications WHERE message_id = $1"
	for range 2 {
		d.exec("UPDATE notifications SET lease_until = now() + interval '5 seconds' WHERE message_id = $1", kept.MessageID)
		d.eventually("the lease is renewed", func() bool { return scan[float64](d, left, kept.MessageID) > 10 })
	}
	if scan[float64](d, left, given.MessageID) != 0 {
		t.Error("a lease that was given back is renewed")
	}
	if err := d.service.sendAndMark(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	if ids := d.service.leases.ids(); len(ids) != 0 {
		t.Errorf("%d leases are renewed when all is sent", len(ids))
	}
}

func TestARenewalGoesOnAfterTheDatabaseWasAway(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.renewal = 10 * time.Millisecond
	d, proxy := d.behindProxy()
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

// TestP6ARenewalLocksNoMarkOut: a mark skips locked rows, and would be tried again later.
func TestP6ARenewalLocksNoMarkOut(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	var marks []mark
	for range 50 {
		marks = append(marks, mark{status: Sent, id: d.leased().MessageID, ctx: t.Context()})
	}
	written := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for {
			select {
			case <-written:
				return
			default:
			}
			if err := d.service.renew(t.Context(), idsOf(marks)); err != nil {
				t.Error(err)
			}
		}
	})
	for _, m := range marks {
		if errs, err := d.service.write(t.Context(), []mark{m}); err != nil || errors.Join(errs...) != nil {
			t.Errorf("errors %v, %v", err, errs)
		}
	}
	close(written)
	renewing.Wait()
}

func TestALeaseOutlivesSomeFailedRenewals(t *testing.T) {
	t.Parallel()
	if 3*leaseRenewal > lease {
		t.Errorf("a lease of %s is renewed only each %s", lease, leaseRenewal)
	}
}
