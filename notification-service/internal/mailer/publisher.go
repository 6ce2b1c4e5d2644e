package mailer

import (
	"context"
	"errors"
	"fmt"
	"net/textproto"
	"os"
	"regexp"
	"strings"
	"sync"

	"example.com/transactional-outbox/outbox/publish"
)

// publisher is a [publish.Publisher].
type publisher struct {
	*Destination
	open    context.Context //nolint:containedctx // it ends with Close, and when the sessions are lost
	shut    context.CancelFunc
	mu      sync.Mutex
	sending sync.WaitGroup
}

// Publish returns at once. It sends messages at the same time, and those of a group one by one.
func (p *publisher) Publish(ctx context.Context, messages []publish.Message, answer func(int, publish.Result)) {
	groups := map[string][]int{}
	for i, m := range messages {
		groups[m.Group] = append(groups[m.Group], i)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range messages {
		if group := groups[m.Group]; group[0] == i {
			p.sending.Go(func() {
				for _, i := range group {
					p.send(ctx, messages[i], func(r publish.Result) { answer(i, r) })
				}
			})
		}
	}
}

// Close breaks off what is being sent. Each message without an answer gets one.
func (p *publisher) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut()
	p.sending.Wait()
}

// send sends m, and sends it again over another connection if the one that it got is to blame.
func (p *publisher) send(ctx context.Context, m publish.Message, answer func(publish.Result)) {
	for tries, fresh := 1, 0; ; tries++ {
		c, err := p.pool.take(ctx, p.open, m.Topic)
		if err != nil {
			answer(notSent(err))
			return
		}
		if ctx.Err() != nil { // the lease has ended, without Done: Err looks at the clock
			p.pool.put(c, publish.NotSent)
			answer(notSent(ctx.Err()))
			return
		}
		kept := c.kept
		if !kept {
			fresh++
		}
		r, end := p.sendOver(ctx, c, m)
		if r.Outcome == publish.Refused && p.isToBlame(end, kept, tries, fresh) {
			c.close()
			p.pool.put(c, publish.NotSent)
			continue
		}
		p.pool.put(c, r.Outcome) // before the answer, after which the next e-mail may follow
		answer(r)
		return
	}
}

// isToBlame reports whether it may be the connection that failed, and not the e-mail. A kept one that
// fails at MAIL always is, and the next kept one may be as old. A fresh one that ends there without a
// reply may have been opened just before the server died: then there is no next one, and the e-mail
// was not sent. After MAIL it may be the e-mail on which the server hangs up: that is tried once more.
func (p *publisher) isToBlame(e end, kept bool, tries, fresh int) bool {
	switch {
	case e.step == stepDot:
		return false
	case e.step == stepMail && kept:
		return tries <= p.Connections
	case e.step == stepMail:
		return e.cut && fresh == 1
	default:
		return tries == 1 && (e.cut || kept && e.broke)
	}
}

// end is how the sending of an e-mail over a connection has ended.
type end struct {
	step  string // the last one
	broke bool   // the connection is of no more use
	cut   bool   // it ended without a reply, and not by a timeout
}

// sendOver composes the e-mail of m and sends it over c.
func (p *publisher) sendOver(ctx context.Context, c *connection, m publish.Message) (publish.Result, end) {
	e, err := p.compose(m)
	if err != nil {
		r, _ := outcome("the e-mail", err)
		return r, end{}
	}
	stop := context.AfterFunc(p.open, func() { _ = c.conn.Close() }) //nolint:contextcheck // what is begun goes on when ctx ends
	last, err := c.transaction(ctx, e)
	r, broke := outcome(last, err)
	c.emails++
	if !broke && r.Outcome != publish.Confirmed { // the transaction may be open
		if c.within(c.limits.quit); c.Reset() != nil {
			c.close()
		}
	}
	if !stop() || errors.Is(err, errTooLate) { // Close, or the lease has ended
		broke = true
		if r.Outcome == publish.Refused {
			r = notSent(err)
		}
	}
	if broke {
		c.close()
	}
	_, replied := errors.AsType[*textproto.Error](err)
	return r, end{last, broke, broke && !replied && !errors.Is(err, os.ErrDeadlineExceeded)}
}

// unknownRecipient finds the status codes (RFC 3463) of addresses to which nothing can ever be
// sent.
var unknownRecipient = regexp.MustCompile(`^5\.1\.(1|3|6|10)(\s|$)`)

// outcome is what became of an e-mail after its last step, and whether the connection is broken.
func outcome(last string, err error) (r publish.Result, broken bool) {
	reply, replied := errors.AsType[*textproto.Error](err)
	refused := replied && (reply.Code/100 == 4 || reply.Code/100 == 5)
	broken = !refused || reply.Code == 421 || reply.Code == 521
	switch {
	case err == nil, last == stepDot && replied && reply.Code/100 == 2: // go-mail takes only 250 for success
		return publish.Result{Outcome: publish.Confirmed}, false
	case errors.Is(err, publish.ErrInvalid):
		return publish.Result{Outcome: publish.Invalid, Err: err}, false
	}
	err = fmt.Errorf("%s: %w", last, readable(err))
	switch {
	case last == stepRcpt && refused && reply.Code/100 == 5 && unknownRecipient.MatchString(reply.Msg):
		return publish.Result{Outcome: publish.Invalid, Err: fmt.Errorf("%w: %w", publish.ErrInvalid, err)}, broken
	case last == stepDot && !refused:
		return publish.Result{Outcome: publish.Unknown, Err: fmt.Errorf("%w: %w", publish.ErrTimeout, err)}, true
	default:
		return publish.Result{Outcome: publish.Refused, Err: err}, broken
	}
}

func notSent(reason error) publish.Result {
	if !errors.Is(reason, publish.ErrNotSent) {
		reason = fmt.Errorf("%w: %w", publish.ErrNotSent, readable(reason))
	}
	return publish.Result{Outcome: publish.NotSent, Err: reason}
}

var anAddress = regexp.MustCompile(`[^\s<>]+@[^\s<>]+`)

// readable returns an error of one line for logs and traces: without addresses, and in UTF-8.
func readable(err error) error {
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\n", " "), "?")
	return errors.New(anAddress.ReplaceAllString(text, "(hidden)"))
}
