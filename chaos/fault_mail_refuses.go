package main

import (
	"context"
	"errors"
	"time"

	"example.com/transactional-outbox/chaos/mailserver"
)

// refusing is longer than all retry delays together: a consumer that takes the trouble
// of a server for that of its messages has dead letters by then.
const refusing = 6 * time.Second

// policies are ways to refuse every e-mail that are no e-mail's fault.
var policies = []mailserver.Mood{
	{Code: 454, Enhanced: [3]int{4, 3, 0}, AtDot: true},
	{Code: 421, Enhanced: [3]int{4, 3, 2}},
	{Code: 451, Enhanced: [3]int{4, 7, 1}},
	{Code: 554, Enhanced: [3]int{5, 7, 1}},
}

func (y *system) refuseByPolicy(ctx context.Context) error {
	for _, policy := range policies {
		began := time.Now()
		err := y.refuseWith(ctx, policy)
		y.boundConnections(policy, began)
		if err := errors.Join(err, y.awaitMended(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// refuseWith lets the mail server refuse for a while, and then take all again.
func (y *system) refuseWith(ctx context.Context, m mailserver.Mood) error {
	before := y.mail.Misbehaved()
	y.mail.Feel(m)
	err := sleep(ctx, y.scaled(refusing))
	y.mail.Feel(mailserver.Mood{})
	y.injected += y.mail.Misbehaved() - before
	return err
}

// boundConnections wants a replica to try no more than once a second while it is refused,
// beside what all its workers had in hand when that began.
func (y *system) boundConnections(m mailserver.Mood, began time.Time) {
	tries, seconds := y.mail.ConnectionsSince(began), int(time.Since(began).Seconds())
	bound := 0
	for _, r := range y.notifications {
		bound += r.workers() + seconds
	}
	if tries > bound {
		y.complain("P9", "%d connections to a mail server that refuses with %d, in %d s: %d at most", tries, m.Code, seconds, bound)
	}
}

// throttleMail takes a few e-mails a second, and refuses the others: by closing the
// connection, and by an answer.
func (y *system) throttleMail(ctx context.Context) error {
	const perSecond = 5
	for _, m := range []mailserver.Mood{
		{Code: 421, Enhanced: [3]int{4, 7, 0}, PerSecond: perSecond},
		{Code: 451, Enhanced: [3]int{4, 7, 1}, PerSecond: perSecond},
	} {
		if err := errors.Join(y.refuseWith(ctx, m), y.awaitMended(ctx)); err != nil {
			return err
		}
	}
	return nil
}
