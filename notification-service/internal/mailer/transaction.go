package mailer

import (
	"context"
	"errors"
	"io"
	"net/textproto"
	"slices"
	"time"
)

// step is one exchange with the server.
type step struct {
	name    string
	timeout time.Duration
	do      func() error
}

// The steps that the code distinguishes.
const (
	stepReset = "RSET"
	stepMail  = "MAIL"
	stepRcpt  = "RCPT"
	stepNoop  = "NOOP"
	stepDot   = "the dot" // from here on the server may have the e-mail
)

const blockSize = 16 << 10

// sendSteps are the steps that send e (RFC 5321, section 3.3).
func (c *connection) sendSteps(e envelope) []step {
	var data io.WriteCloser
	steps := []step{
		{stepMail, c.limits.mail, func() error {
			c.client.SkipSMTPUTF8(!e.utf8)
			return c.client.Mail(e.from)
		}},
		{stepRcpt, c.limits.rcpt, func() error { return c.client.Rcpt(e.to) }},
		{"DATA", c.limits.data, func() (err error) { data, err = c.client.Data(); return err }},
	}
	for block := range slices.Chunk(e.text, blockSize) {
		steps = append(steps, step{"the text", c.limits.block, func() error { _, err := data.Write(block); return err }})
	}
	return append(steps, step{stepDot, c.limits.dot, func() error { return accepted(data.Close()) }})
}

// accepted treats every 2yz as success. go-mail does so only for 250 (RFC 5321, section 4.2.1).
func accepted(err error) error {
	if answer, ok := errors.AsType[*textproto.Error](err); ok && answer.Code/100 == 2 {
		return nil
	}
	return err
}

// probeSteps are the steps that ask whether the server would accept an e-mail.
func (c *connection) probeSteps(sender *string) []step {
	if sender == nil {
		return []step{{stepNoop, c.limits.mail, c.client.Noop}}
	}
	return []step{{stepMail, c.limits.mail, func() error {
		c.client.SkipSMTPUTF8(true)
		return c.client.Mail(*sender)
	}}}
}

// run does the steps up to the first that fails, and prepares the connection for the next
// e-mail. All steps before the dot must end by until. The end of ctx ends any step.
func (c *connection) run(ctx context.Context, until time.Time, steps []step) error {
	stop := c.interruptWhenDone(ctx)
	err := c.do(ctx, until, append([]step{{stepReset, c.limits.reset, c.readReset}}, steps...))
	c.emails++
	if !stop() || isConnectionBroken(err) || c.sendReset() != nil {
		c.close()
	}
	return err
}

func (c *connection) do(ctx context.Context, until time.Time, steps []step) error {
	for _, s := range steps {
		if s.name == stepDot {
			until = time.Time{}
		}
		c.setDeadline(ctx, s.timeout, until)
		if err := s.do(); err != nil {
			return newStepError(s.name, explainTimeout(ctx, c.stepDeadline, err))
		}
	}
	return nil
}

// sendReset ends a transaction that may be open. It does not wait for the answer: readReset
// reads it when the connection is used again.
func (c *connection) sendReset() error {
	_ = c.conn.SetDeadline(time.Now().Add(c.limits.quit))
	id, err := c.client.Text.Cmd("RSET")
	c.reset = &id
	return err
}

func (c *connection) readReset() error {
	if c.reset == nil {
		return nil
	}
	id := *c.reset
	c.reset = nil
	c.client.Text.StartResponse(id)
	defer c.client.Text.EndResponse(id)
	_, _, err := c.client.Text.ReadResponse(250)
	return err
}
