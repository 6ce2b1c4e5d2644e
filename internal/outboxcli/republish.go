package outboxcli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
)

func (s Service) republish() command {
	return command{
		Name: "republish", Arguments: "--since TIME [flags]",
		Does: "send published events again, if " + s.Destination + " has lost them",
		More: `Sends published events again, each with its old id, and the events of one order in the
order of their versions. It changes nothing in the outbox.
` + s.Again + `
For example, if ` + s.Destination + ` has lost what it got on the last day:

  ` + s.program() + ` republish --since 24h --dry-run
  ` + s.program() + ` republish --since 2026-01-31T08:00:00Z --topic ` + s.Topic,
		Define: s.defineRepublish,
	}
}

type republication struct {
	Service
	since, until   *cli.Moment
	topic          *string
	after          uuid.UUID
	dryRun, asJSON *bool
}

func (s Service) defineRepublish(flags *flag.FlagSet) func([]string) (Action, error) {
	c := republication{
		Service: s,
		since:   cli.DefineMoment(flags, "since", "events that were published at this `TIME` or later: 24h (ago), or 2026-01-31T08:00:00Z"),
		until:   cli.DefineMoment(flags, "until", "and before this `TIME`; the default is now"),
		topic:   s.defineTopic(flags), dryRun: cli.DefineDryRun(flags), asJSON: cli.DefineJSON(flags),
	}
	flags.Func("after", "go on after this `ID`, which the error of an earlier run names", func(value string) error {
		ids, err := s.parseIDs([]string{value})
		if err == nil {
			c.after = ids[0]
		}
		return err
	})
	return func(args []string) (Action, error) {
		if err := cli.NoArguments(args); err != nil {
			return nil, err
		}
		if !c.since.IsSet() {
			return nil, errors.New("give --since, such as --since 24h")
		}
		return c.run, nil
	}
}

func (c republication) run(ctx context.Context, d Dependencies) error {
	r, err := c.start(ctx, d)
	if err != nil {
		return err
	}
	p := cli.Printer{Out: d.Out, JSON: *c.asJSON}
	progress := cli.Progress{To: d.Progress, Noun: event, Total: r.Total}
	done := func(page []operate.Event) (err error) {
		if *c.asJSON || *c.dryRun {
			err = p.Page(publishedEvents(page))
		}
		progress.At(r.Sent + len(page))
		return err
	}
	switch {
	case r.Total == 0:
		p.Printf("No such events were published since %s. (Events older than OUTBOX_RETENTION are pruned.)",
			r.Window.Since.Format(time.RFC3339))
		return nil
	case *c.dryRun:
		err := r.Each(ctx, done)
		p.Printf("%s would be sent again. Nothing was sent.", event.Count(r.Sent))
		return err
	}
	by := operate.NewDecision(d.By, operate.CLI, resumeFlags(r))
	err = d.Destination(ctx, func(ctx context.Context, s publish.Session) error { return r.Send(ctx, by, s, done) })
	if r.Sent > 0 {
		slog.InfoContext(ctx, "events republished", "events", r.Sent, "since", r.Window.Since, "until", r.Window.Until, "by", d.By)
	}
	if err != nil {
		return c.resumeError(r, err)
	}
	p.Printf("%s sent again.", event.Count(r.Sent))
	return nil
}

// start counts the events to send.
func (c republication) start(ctx context.Context, d Dependencies) (*operate.Republication, error) {
	now, err := d.Outbox.Now(ctx)
	if err != nil {
		return nil, err
	}
	w := operate.Window{Since: c.since.AsOf(now), Until: now, Topic: *c.topic}
	if c.until.IsSet() {
		w.Until = c.until.AsOf(now)
	}
	if !w.Since.Before(w.Until) {
		return nil, fmt.Errorf("--since (%s) is not before --until (%s)", w.Since.Format(time.RFC3339), w.Until.Format(time.RFC3339))
	}
	r, err := d.Outbox.Republish(ctx, w, c.after)
	if errors.Is(err, operate.ErrNoEvent) {
		return nil, fmt.Errorf("there is no event %s to go on after: leave out --after to begin again", c.after)
	}
	if err == nil {
		r.AppID, r.ConfirmTimeout = d.AppID, d.ConfirmTimeout
	}
	return r, err
}

// resumeFlags returns the flags that continue a run, as an operator would write them.
func resumeFlags(r *operate.Republication) string {
	flags := fmt.Sprintf("--since %s --until %s",
		r.Window.Since.UTC().Format(time.RFC3339Nano), r.Window.Until.UTC().Format(time.RFC3339Nano))
	if r.Window.Topic != "" {
		flags += " --topic " + r.Window.Topic
	}
	if r.After != uuid.Nil {
		flags += " --after " + r.After.String()
	}
	return flags
}

// resumeError says how many events were sent, what to do about the cause, and how to continue.
func (s Service) resumeError(r *operate.Republication, err error) error {
	if message, ok := errors.AsType[*operate.NotTakenError](err); ok && s.Advice != nil {
		err = fmt.Errorf("%w; %s", err, s.Advice(message.Outcome))
	}
	return fmt.Errorf("%d of %s sent again, then: %w\nGo on with\n  %s republish %s\n%s",
		r.Sent, event.Count(r.Total), s.hide(err), s.program(), resumeFlags(r), s.Again)
}
