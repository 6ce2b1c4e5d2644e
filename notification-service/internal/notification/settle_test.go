package notification

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestTheEndOfATryLeavesNoLease: whatever the try came to, it is written down, though
// nothing else is done in its context any more.
func TestTheEndOfATryLeavesNoLease(t *testing.T) {
	t.Parallel()
	away := &UnavailableError{Cause: errors.New("connection refused")}
	for name, test := range map[string]struct {
		answer error
		state  string
	}{
		"sent":     {nil, "sent"},
		"away":     {away, "pending"},
		"later":    {errors.New("450 later"), "pending"},
		"for good": {&RefusedError{Reason: "550 no such user"}, "rejected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			id := d.record(uuid.New(), 1)
			ctx, cancel := context.WithCancel(t.Context())
			d.post.answer = func(context.Context) error { cancel(); return test.answer }
			if _, err := d.service.Complete(ctx, id); !errors.Is(err, test.answer) {
				t.Errorf("error %v, want %v", err, test.answer)
			}
			if state := d.status(id); state != test.state {
				t.Errorf("it is %s, want %s", state, test.state)
			}
		})
	}
}

func TestSendingEndsLongBeforeTheLease(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.record(uuid.New(), 1)
	d.post.answer = func(ctx context.Context) error {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > sendTimeout {
			t.Errorf("it may go on until %v", end)
		}
		return nil
	}
	d.want(id, "sent", nil)
	if sendTimeout+settleTimeout > lease/2 {
		t.Error("a lease may end while its holder sends")
	}
}

// TestABadRecipientIsForGood: also one that was recorded before anybody checked, and
// one of the settings.
func TestABadRecipientIsForGood(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.service.config.DefaultRecipient = "guest@example.com\r\nBcc: eve@example.com"
	byDefault := d.record(uuid.New(), 1)
	recorded := d.record(uuid.New(), 1)
	d.exec("UPDATE notifications SET recipient = 'Ada <ada@example.com>' WHERE message_id = ?", recorded)
	for _, id := range []uuid.UUID{byDefault, recorded} {
		for range 2 { // the second delivery gets the same answer
			if _, err := d.service.Complete(t.Context(), id); kind(err) != "bad-recipient" {
				t.Errorf("error %v is %q", err, kind(err))
			}
			if state := d.status(id); state != "rejected" {
				t.Errorf("it is %s", state)
			}
		}
	}
	if len(d.post.sent) != 0 {
		t.Error("an e-mail went out")
	}
}

// TestP5AForcedMessageFindsItsNotification: its note in the inbox was pruned, and its
// effect was not.
func TestP5AForcedMessageFindsItsNotification(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	order := uuid.New()
	id := d.record(order, 1)
	d.want(id, "sent", nil)
	d.recordAs(id, order, 1)
	d.want(id, "sent", nil)
	if len(d.post.sent) != 1 {
		t.Errorf("%d e-mails, want one", len(d.post.sent))
	}
}

func TestTheDateIsTheDatabases(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.record(uuid.New(), 1)
	d.want(id, "sent", nil)
	var started time.Time
	d.scan(&started, "SELECT sent_at FROM notifications")
	if e := d.post.sent[0]; e.Date.IsZero() || e.Date.After(started) {
		t.Errorf("dated %s, and sent at %s", e.Date, started)
	}
}
