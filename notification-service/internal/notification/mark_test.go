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
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/notification-service/internal/mailer"
)

func TestMarkSentReturnsWhenTheDatabaseKnowsIt(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	n := d.leased()
	if err := d.service.sendAndMark(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	d.wantStatus(n.MessageID, Sent)
	e := d.mailer.sent[0]
	if e.To != "guest@example.com" || e.ID != n.MessageID.String()+"@example.com" || !strings.Contains(e.Text, "£59.98") || !e.Date.Equal(n.StartedAt) {
		t.Errorf("e-mail %+v", e)
	}
}

func TestAnEmailThatIsNotTakenLeavesTheLease(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	r := firstRequest(uuid.New(), 1)
	n := d.want(r, Sending, true)
	busy := errors.New("450 busy")
	d.mailer.answer = func(context.Context) error { return busy }
	if err := d.service.sendAndMark(t.Context(), n); !errors.Is(err, busy) {
		t.Errorf("error %v, want %v", err, busy)
	}
	d.wantStatus(r.ID, Sending)
	d.service.Release(t.Context(), r.ID)
	d.wantStatus(r.ID, Pending)
	d.want(repeated(r), Sending, true)
}

// TestP6WhatWasAcceptedIsWrittenAfterTheEnd: nothing else is done in that context any more.
func TestP6WhatWasAcceptedIsWrittenAfterTheEnd(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	n := d.leased()
	ctx, cancel := context.WithCancel(t.Context())
	d.mailer.answer = func(context.Context) error { cancel(); return nil }
	if err := d.service.sendAndMark(ctx, n); err != nil {
		t.Error(err)
	}
	d.wantStatus(n.MessageID, Sent)
}

// TestP6DatabaseAwayAfter250: the mail server has said 250, and then the database goes away.
// Send returns when the database is back and knows of it.
func TestP6DatabaseAwayAfter250(t *testing.T) {
	t.Parallel()
	d, proxy := newFixture(t).behindProxy()
	const emails = 8
	var at sync.WaitGroup
	at.Add(emails)
	d.mailer.answer = func(context.Context) error { // all wait at the dot when the database goes away
		at.Done()
		at.Wait()
		proxy.Refuse(true)
		proxy.Cut()
		return nil
	}
	sent := make(chan error, emails)
	requests := make([]Request, emails)
	for i := range requests {
		requests[i] = firstRequest(uuid.New(), 1)
	}
	for _, n := range d.record(requests...) {
		go func() { sent <- d.service.sendAndMark(t.Context(), n) }()
	}
	at.Wait()
	tried := proxy.Accepted()
	d.eventually("it tries again and again", func() bool { return proxy.Accepted() > tried+4 || len(sent) > 0 })
	if n := len(sent); n != 0 {
		t.Errorf("MarkSent returned %d times while the database was away", n)
	}
	proxy.Refuse(false)
	for range emails {
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
	for _, r := range requests {
		d.want(repeated(r), Sent, false)
	}
}

func TestAMarkWhoseReplyIsLostIsWrittenAgain(t *testing.T) {
	t.Parallel()
	d, proxy := newFixture(t).behindProxy()
	n := d.leased()
	proxy.DropReply(func(request []byte) bool { return bytes.Contains(request, n.MessageID[:]) })
	done := make(chan error, 1)
	go func() { done <- d.service.sendAndMark(t.Context(), n) }()
	d.eventually("replies are lost", func() bool { return proxy.Dropped() > 1 })
	proxy.DropReply(nil)
	if err := <-done; err != nil {
		t.Error(err)
	}
	d.wantStatus(n.MessageID, Sent)
}

func TestMarksAreWrittenTogether(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	var marks []mark
	for i := range 30 {
		kind := []Status{Sent, Rejected, Pending}[i%3]
		marks = append(marks, mark{status: kind, id: d.leased().MessageID, reason: "550 no", ctx: t.Context()})
	}
	if err := errors.Join(d.service.writeMarks(t.Context(), marks)...); err != nil {
		t.Fatal(err)
	}
	for _, m := range marks {
		d.wantStatus(m.id, m.status)
	}
	if n := scan[int](d, "SELECT count(DISTINCT xmin::text) FROM notifications"); n != 1 {
		t.Errorf("they were written by %d transactions, want one", n)
	}
}

func TestAMarkThatFailsDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	good, bad, better := d.leased(), d.leased(), d.leased()
	d.exec("ALTER TABLE notifications ADD CHECK (status <> 'sent' OR message_id <> '" + bad.MessageID.String() + "')")
	marks := []mark{{status: Sent, id: good.MessageID, ctx: t.Context()}, {status: Sent, id: bad.MessageID, ctx: t.Context()}, {status: Sent, id: better.MessageID, ctx: t.Context()}}
	errs := d.service.writeMarks(t.Context(), marks)
	if errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Errorf("errors %v, want one in the middle", errs)
	}
	d.wantStatus(good.MessageID, Sent)
	d.wantStatus(better.MessageID, Sent)
}

// TestP6ALockedRowDelaysNoOther: a transaction has locked one notification while e-mails are sent.
func TestP6ALockedRowDelaysNoOther(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	locked, free := d.leased(), d.leased()
	unlock := make(chan struct{})
	holding := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		err := d.db.InTx(t.Context(), func(tx pgx.Tx) error {
			err := postgres.Write(t.Context(), tx, "", "SELECT FROM notifications WHERE message_id = @id FOR UPDATE", postgres.Args{"id": locked.MessageID})
			close(holding)
			<-unlock
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-holding
	all.Go(func() {
		if err := d.service.sendAndMark(t.Context(), locked); err != nil {
			t.Error(err)
		}
	})
	if err := d.service.sendAndMark(t.Context(), free); err != nil {
		t.Error(err)
	}
	d.wantStatus(free.MessageID, Sent)
	if err := d.service.renew(t.Context(), []uuid.UUID{locked.MessageID, free.MessageID}); err != nil {
		t.Errorf("renewing beside a locked row: %v", err)
	}
	close(unlock)
	all.Wait()
	d.wantStatus(locked.MessageID, Sent)
}

// TestP6WhatWasAcceptedIsMarkedAfterAnyError: a mark that the database refuses is tried until
// the database is repaired. If it gave up, the e-mail would be sent again.
func TestP6WhatWasAcceptedIsMarkedAfterAnyError(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	n := d.leased()
	d.exec("ALTER TABLE notifications ADD CONSTRAINT wrong CHECK (status <> 'sent')")
	sent := make(chan error, 1)
	go func() { sent <- d.service.sendAndMark(t.Context(), n) }()
	select {
	case err := <-sent:
		t.Errorf("MarkSent returned %v before the database knew it", err)
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
	d := newFixture(t)
	n := d.leased()
	if err := d.service.sendAndMark(t.Context(), n); err != nil {
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
	d := newFixture(t)
	n := d.leased()
	if err := d.service.Reject(t.Context(), n.MessageID, "x\x00"+strings.Repeat("ü", 1000)); err != nil {
		t.Error(err)
	}
	d.wantStatus(n.MessageID, Rejected)
}

// TestABadRecipientIsForGood: also one that was recorded before anybody checked.
func TestABadRecipientIsForGood(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	n := d.leased()
	for _, bad := range []string{"", "guest@example.com\r\nBcc: eve@example.com", "Ada <ada@example.com>"} {
		n.Recipient = bad
		if _, ok := errors.AsType[*mailer.BadRecipientError](d.service.sendAndMark(t.Context(), n)); !ok {
			t.Errorf("sent to %q", bad)
		}
	}
	if len(d.mailer.sent) != 0 {
		t.Error("an e-mail went out")
	}
}

// TestMarkersInOppositeOrdersDoNotDeadlock: two processes and a renewal lock the same rows.
func TestMarkersInOppositeOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	a := newFixture(t)
	b := a.otherProcess(a.db)
	for range 10 {
		var marks []mark
		for range 50 {
			marks = append(marks, mark{status: Sent, id: a.leased().MessageID, ctx: t.Context()})
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
