package outboxcli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
)

type republish struct {
	Since  moment    `required:"" placeholder:"TIME" help:"Events that were published at this TIME or later,"`
	Until  moment    `placeholder:"TIME" help:"and before this one; the default is now."`
	Topic  text      `placeholder:"TOPIC" help:"Only events of this topic, such as ${topic}."`
	After  uuid.UUID `placeholder:"ID" help:"Go on after this event, which the error of an earlier run names."`
	DryRun bool      `help:"Print what would be sent, and send nothing."`
	recorded
}

// Help is below the first line of the help.
func (republish) Help() string {
	return `Each event has its old id, and the events of one order come in the order of their versions.
It is safe to repeat, because consumers know the ids that they have had. Start the consumers first,
so that their queues exist.`
}

// Run sends the events. Its error has the command to go on with.
func (c *republish) Run(ctx context.Context, e *env) error {
	return e.operator(ctx, func(o *operate.Operator) error {
		r, err := c.start(ctx, e, o)
		if err != nil {
			return err
		}
		p, progress := e.printer(c.JSON), progress{to: e.progress, total: r.Total}
		done := func(page []operate.Event) (err error) {
			if c.JSON || c.DryRun {
				err = p.list(objects(page))
			}
			progress.at(r.Sent + len(page))
			return err
		}
		switch {
		case r.Total == 0:
			p.sayf("No such events were published since %s. (Events older than OUTBOX_RETENTION are pruned.)", r.Window.Since.Format(time.RFC3339))
			return nil
		case c.DryRun:
			err := r.Each(ctx, done)
			p.sayf("%d would be sent again. Nothing was sent.", r.Sent)
			return err
		}
		if err := c.send(ctx, e, r, done); err != nil {
			return fmt.Errorf("%d of %d sent again, then: %w\nGo on with\n  %s outbox republish %s",
				r.Sent, r.Total, err, e.Name, resumeFlags(r))
		}
		p.sayf("%d sent again.", r.Sent)
		return nil
	})
}

// start counts the events to send.
func (c *republish) start(ctx context.Context, e *env, o *operate.Operator) (*operate.Republication, error) {
	now, err := o.Now(ctx)
	if err != nil {
		return nil, err
	}
	w := operate.Window{Since: c.Since.asOf(now), Until: now, Topic: string(c.Topic)}
	if c.Until.asOf != nil {
		w.Until = c.Until.asOf(now)
	}
	if !w.Since.Before(w.Until) {
		return nil, fmt.Errorf("--since (%s) is not before --until (%s)", w.Since.Format(time.RFC3339), w.Until.Format(time.RFC3339))
	}
	r, err := o.Republish(ctx, w, c.After)
	if errors.Is(err, operate.ErrNoEvent) {
		return nil, fmt.Errorf("there is no event %s to go on after: leave out --after to begin again", c.After)
	}
	if err == nil {
		r.AppID, r.ConfirmTimeout = e.Name, e.ConfirmTimeout
	}
	return r, err
}

func (c *republish) send(ctx context.Context, e *env, r *operate.Republication, done func([]operate.Event) error) error {
	broker, err := e.Broker()
	if err != nil {
		return err
	}
	by := c.by(resumeFlags(r))
	err = onSession(ctx, sessionTimeout, broker.KeepConnected, func(ctx context.Context, s publish.Session) error {
		return r.Send(ctx, by, s, done)
	})
	if r.Sent > 0 {
		slog.InfoContext(ctx, "events republished", "events", r.Sent, "since", r.Window.Since, "until", r.Window.Until, "by", by.Operator)
	}
	if message, ok := errors.AsType[*operate.NotTakenError](err); ok {
		err = fmt.Errorf("%w; %s", err, advice(message.Outcome))
	}
	return err
}

// resumeFlags returns the flags that continue a run, as an operator would write them.
func resumeFlags(r *operate.Republication) string {
	flags := fmt.Sprintf("--since %s --until %s", r.Window.Since.UTC().Format(time.RFC3339Nano), r.Window.Until.UTC().Format(time.RFC3339Nano))
	if r.Window.Topic != "" {
		flags += " --topic " + r.Window.Topic
	}
	if r.After != uuid.Nil {
		flags += " --after " + r.After.String()
	}
	return flags
}
