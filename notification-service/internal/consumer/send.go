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

// send sends the e-mail of a leased notification, when a worker is free.
func (c *Consumer) send(d *delivery, mail *permit, n notification.Notification) error {
	err := c.sendWhenFree(d, mail, n)
	if err == nil {
		d.leased = false
		return nil
	}
	return d.classify(mail, &d.mailFailures, err)
}

func (c *Consumer) sendWhenFree(d *delivery, mail *permit, n notification.Notification) error {
	leasedAt := time.Now()
	select {
	case c.sending <- struct{}{}:
	case <-d.held.Done():
		return context.Cause(d.held)
	}
	freeWorker := sync.OnceFunc(func() { <-c.sending })
	defer freeWorker()
	if time.Since(leasedAt) > maxLeaseAge {
		found, err := c.lease(d)
		if err != nil || !found.notification.HasLease {
			return err
		}
	}
	if !mail.isValid() {
		return errTryAgain
	}
	// An e-mail that is broken off in the middle would be sent twice. So it goes on when the
	// session has ended.
	if err := c.sendSafely(d, n); err != nil {
		return err
	}
	mail.succeed()
	d.markWaiting()
	select {
	case c.unmarked <- struct{}{}:
		defer func() { <-c.unmarked }()
	case <-d.finish.Done(): // there is time for one attempt to mark it
	}
	freeWorker()
	return c.effect.MarkSent(d.finish, n)
}

// slowEmail is how long an e-mail may take before it counts as one that only waits. The mail
// server may take many minutes for one recipient. At the start of a consumer, the other messages
// must not wait as long.
const slowEmail = 10 * time.Second

// sendSafely turns a panic into an error.
func (c *Consumer) sendSafely(d *delivery, n notification.Notification) (err error) {
	defer recoverPanic(d.finish, &err)
	defer time.AfterFunc(slowEmail, d.markWaiting).Stop()
	return c.effect.Send(d.finish, n)
}
