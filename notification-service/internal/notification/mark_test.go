package notification

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

func TestSendReturnsWhenTheDatabaseKnowsIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	n := d.leased()
	if err := d.service.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	d.wantStatus(n.MessageID, Sent)
	e := d.post.sent[0]
	if e.To != "guest@example.com" || e.ID != n.MessageID.String()+"@example.com" || !strings.Contains(e.Text, "£59.98") || !e.Date.Equal(n.StartedAt) {
		t.Errorf("e-mail %+v", e)
	}
}

func TestAnEmailThatIsNotTakenLeavesTheLease(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := first(uuid.New(), 1)
	n := d.want(r, Sending, true)
	busy := errors.New("450 busy")
	d.post.answer = func(context.Context) error { return busy }
	if err := d.service.Send(t.Context(), n); !errors.Is(err, busy) {
		t.Errorf("error %v, want %v", err, busy)
	}
	d.wantStatus(r.ID, Sending)
	d.service.Release(t.Context(), r.ID)
	d.wantStatus(r.ID, Pending)
	d.want(again(r), Sending, true)
}

// TestP6WhatWasAcceptedIsWrittenAfterTheEnd: nothing else is done in that context any more.
func TestP6WhatWasAcceptedIsWrittenAfterTheEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	n := d.leased()
	ctx, cancel := context.WithCancel(t.Context())
	d.post.answer = func(context.Context) error { cancel(); return nil }
	if err := d.service.Send(ctx, n); err != nil {
		t.Error(err)
	}
	d.wantStatus(n.MessageID, Sent)
}

// TestP6DatabaseAwayAfter250: the mail server has said 250, and then the database goes away.
// Send returns when the database is back and knows of it.
func TestP6DatabaseAwayAfter250(t *testing.T) {
	t.Parallel()
	d, proxy := newDesk(t).behind()
	const emails = 8
	var at sync.WaitGroup
	at.Add(emails)
	d.post.answer = func(context.Context) error { // all stand at the dot when the database ends
		at.Done()
		at.Wait()
		proxy.Refuse(true)
		proxy.Cut()
		return nil
	}
	sent := make(chan error, emails)
	requests := make([]Request, emails)
	for i := range requests {
		requests[i] = first(uuid.New(), 1)
	}
	for _, n := range d.record(requests...) {
		go func() { sent <- d.service.Send(t.Context(), n) }()
	}
	at.Wait()
	tried := proxy.Accepted()
	d.eventually("it tries again and again", func() bool { return proxy.Accepted() > tried+4 || len(sent) > 0 })
	if n := len(sent); n != 0 {
		t.Errorf("Send returned %d times while the database was away", n)
	}
	proxy.Refuse(false)
	for range emails {
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
	for _, r := range requests {
		d.want(again(r), Sent, false)
	}
}

func TestAMarkWhoseReplyIsLostIsWrittenAgain(t *testing.T) {
	t.Parallel()
	d, proxy := newDesk(t).behind()
	n := d.leased()
	proxy.DropReply(func(request []byte) bool { return bytes.Contains(request, n.MessageID[:]) })
	done := make(chan error, 1)
	go func() { done <- d.service.Send(t.Context(), n) }()
	d.eventually("replies are lost", func() bool { return proxy.Dropped() > 1 })
	proxy.DropReply(nil)
	if err := <-done; err != nil {
		t.Error(err)
	}
	d.wantStatus(n.MessageID, Sent)
}

func TestMarksAreWrittenTogether(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var marks []mark
	for i := range 30 {
		kind := []Status{markSent, markRejected, markPending}[i%3]
		marks = append(marks, mark{kind: kind, id: d.leased().MessageID, reason: "550 no", ctx: t.Context()})
	}
	if err := errors.Join(d.service.writeMarks(t.Context(), marks)...); err != nil {
		t.Fatal(err)
	}
	for _, m := range marks {
		d.wantStatus(m.id, m.kind)
	}
	if n := scan[int](d, "SELECT count(DISTINCT xmin::text) FROM notifications"); n != 1 {
		t.Errorf("they were written by %d transactions, want one", n)
	}
}

func TestAMarkThatFailsSpoilsNoOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	good, bad, better := d.leased(), d.leased(), d.leased()
	d.exec("ALTER TABLE notifications ADD CHECK (status <> 'sent' OR message_id <> '" + bad.MessageID.String() + "')")
	marks := []mark{{kind: markSent, id: good.MessageID, ctx: t.Context()}, {kind: markSent, id: bad.MessageID, ctx: t.Context()}, {kind: markSent, id: better.MessageID, ctx: t.Context()}}
	errs := d.service.writeMarks(t.Context(), marks)
	if errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Errorf("errors %v, want one in the middle", errs)
	}
	d.wantStatus(good.MessageID, Sent)
	d.wantStatus(better.MessageID, Sent)
}

// TestP6ALockedRowHoldsUpNoOther: somebody has one notification locked while e-mails are sent.
func TestP6ALockedRowHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	locked, free := d.leased(), d.leased()
	letGo := make(chan struct{})
	holding := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		err := d.db.InTx(t.Context(), func(tx *postgres.Tx) error {
			err := tx.Gorm(t.Context()).Exec("SELECT FROM notifications WHERE message_id = ? FOR UPDATE", locked.MessageID).Error
			close(holding)
			<-letGo
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-holding
	all.Go(func() {
		if err := d.service.Send(t.Context(), locked); err != nil {
			t.Error(err)
		}
	})
	if err := d.service.Send(t.Context(), free); err != nil {
		t.Error(err)
	}
	d.wantStatus(free.MessageID, Sent)
	if err := d.service.renew(t.Context(), []uuid.UUID{locked.MessageID, free.MessageID}); err != nil {
		t.Errorf("renewing beside a locked row: %v", err)
	}
	close(letGo)
	all.Wait()
	d.wantStatus(locked.MessageID, Sent)
}

// TestP6WhatWasAcceptedIsMarkedAfterAnyError: a mark that the database refuses is tried until
// somebody has mended the database. To give up would be to send the e-mail again.
func TestP6WhatWasAcceptedIsMarkedAfterAnyError(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	n := d.leased()
	d.exec("ALTER TABLE notifications ADD CONSTRAINT wrong CHECK (status <> 'sent')")
	sent := make(chan error, 1)
	go func() { sent <- d.service.Send(t.Context(), n) }()
	select {
	case err := <-sent:
		t.Errorf("Send returned %v before the database knew it", err)
	case <-time.After(time.Second):
	}
	d.exec("ALTER TABLE notifications DROP CONSTRAINT wrong")
	if err := <-sent; err != nil {
		t.Error(err)
	}
	d.wantStatus(n.MessageID, Sent)
}

func TestARejectionNeverOverwritesSent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	n := d.leased()
	if err := d.service.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if err := d.service.Reject(t.Context(), n.MessageID, "550 no such user"); err != nil {
		t.Error(err)
	}
	d.service.Release(t.Context(), n.MessageID)
	d.wantStatus(n.MessageID, Sent)
}

func TestAReasonFitsItsColumn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	n := d.leased()
	if err := d.service.Reject(t.Context(), n.MessageID, "x\x00"+strings.Repeat("ü", 1000)); err != nil {
		t.Error(err)
	}
	d.wantStatus(n.MessageID, Rejected)
}

// TestABadRecipientIsForGood: also one that was recorded before anybody checked.
func TestABadRecipientIsForGood(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	n := d.leased()
	for _, bad := range []string{"", "guest@example.com\r\nBcc: eve@example.com", "Ada <ada@example.com>"} {
		n.Recipient = bad
		if _, ok := errors.AsType[*BadRecipientError](d.service.Send(t.Context(), n)); !ok {
			t.Errorf("sent to %q", bad)
		}
	}
	if len(d.post.sent) != 0 {
		t.Error("an e-mail went out")
	}
}

// TestMarkersInOppositeOrdersDoNotDeadlock: two processes and a renewal lock the same rows.
func TestMarkersInOppositeOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	a := newDesk(t)
	b := a.process(a.db)
	for range 10 {
		var marks []mark
		for range 50 {
			marks = append(marks, mark{kind: markSent, id: a.leased().MessageID, ctx: t.Context()})
		}
		reversed := slices.Clone(marks)
		slices.Reverse(reversed)
		ids := idsOf(reversed)
		var all sync.WaitGroup
		for _, write := range []func() error{
			func() error { _, err := a.service.write(t.Context(), marks); return err },
			func() error { _, err := b.service.write(t.Context(), reversed); return err },
			func() error { return a.service.renew(t.Context(), ids) },
		} {
			all.Go(func() {
				if err := write(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}
