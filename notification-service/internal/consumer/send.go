package consumer

import (
	"context"
	"sync"
	"time"

	"example.com/transactional-outbox/notification-service/internal/notification"
)

// maxLeaseAge is how long a leased message may wait for a free worker without another look at
// the database: a newer event of its order may have come.
const maxLeaseAge = time.Second

// send sends the e-mail of a leased notification, when a worker is free, and marks it.
func (c *Consumer) send(d *delivery, mail *permit, n notification.Notification) error {
	leasedAt := time.Now()
	select {
	case c.sending <- struct{}{}:
	case <-d.held.Done():
		return context.Cause(d.held)
	}
	freeWorker := sync.OnceFunc(func() { <-c.sending })
	defer freeWorker()
	if isSent, err := c.sendLeased(d, mail, n, leasedAt); !isSent {
		return err
	}
	// Also if the mark fails, the lease is not given back: the e-mail would be sent again.
	d.leased = false
	mail.succeed()
	d.markWaiting()
	select {
	case c.unmarked <- struct{}{}:
		defer func() { <-c.unmarked }()
	case <-d.finish.Done(): // nothing more is sent, so the number cannot grow
	}
	freeWorker()
	return c.effect.MarkSent(d.writing, n)
}

// sendLeased reports whether the mail server has accepted the e-mail. It has not, without an
// error, if a newer event has come.
func (c *Consumer) sendLeased(d *delivery, mail *permit, n notification.Notification, leasedAt time.Time) (isSent bool, err error) {
	if time.Since(leasedAt) > maxLeaseAge {
		found, err := c.lease(d)
		if err != nil {
			return false, err
		}
		if !found.notification.HasLease {
			d.leased = false
			return false, nil
		}
	}
	if !mail.isValid() {
		return false, errTryAgain
	}
	if err := c.sendSafely(d, n); err != nil {
		return false, d.classify(mail, &d.mailFailures, err)
	}
	return true, nil
}

// slowEmail is how long an e-mail may take before it counts as one that only waits. The mail
// server may take many minutes for one recipient. At the start of a consumer, the other messages
// must not wait as long.
const slowEmail = 10 * time.Second

// sendSafely turns a panic into an error. An e-mail that is broken off in the middle would be sent
// twice. So it goes on when the session has ended.
func (c *Consumer) sendSafely(d *delivery, n notification.Notification) (err error) {
	defer recoverPanic(d.finish, &err)
	defer time.AfterFunc(slowEmail, d.markWaiting).Stop()
	return c.effect.Send(d.finish, n)
}
