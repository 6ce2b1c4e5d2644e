package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

var republish = command{
	Name: "republish", Arguments: "--since TIME [flags]",
	Does: "send published events again, for a broker that lost its disk",
	More: `Sends published events again, each with its old id, and the events of one order in the
order of their versions. It changes nothing in the outbox. It is safe to repeat,
because consumers know the ids that they have had. Start the consumers first, so that
their queues exist. For example, if the broker lost the messages of the last day:

  ` + program + ` republish --since 24h --dry-run
  ` + program + ` republish --since 2026-01-31T08:00:00Z --event-key order.created`,
	Define: defineRepublish,
}

type republication struct {
	since, until   *cli.Moment
	key            *string
	after          uuid.UUID
	dryRun, asJSON *bool
}

func defineRepublish(flags *flag.FlagSet) func([]string) (Action, error) {
	r := republication{
		since: cli.DefineMoment(flags, "since", "events that were published at this `TIME` or later: 24h (ago), or 2026-01-31T08:00:00Z"),
		until: cli.DefineMoment(flags, "until", "and before this `TIME`; the default is now"),
		key:   defineKey(flags), dryRun: cli.DefineDryRun(flags), asJSON: cli.DefineJSON(flags),
	}
	flags.Func("after", "go on after this `ID`, which the error of an earlier run names", func(value string) error {
		ids, err := parseIDs([]string{value})
		if err == nil {
			r.after = ids[0]
		}
		return err
	})
	return func(args []string) (Action, error) {
		if err := cli.NoArguments(args); err != nil {
			return nil, err
		}
		if !r.since.IsSet() {
			return nil, errors.New("give --since, such as --since 24h")
		}
		return r.run, nil
	}
}

func (r republication) run(ctx context.Context, d Dependencies) error {
	now, err := d.Outbox.Now(ctx)
	if err != nil {
		return err
	}
	until := now
	if r.until.IsSet() {
		until = r.until.AsOf(now)
	}
	s := republishing{
		Dependencies: d, Printer: cli.Printer{Out: d.Out, JSON: *r.asJSON}, printEach: *r.asJSON || *r.dryRun, after: r.after,
		window: outbox.Window{Since: r.since.AsOf(now), Until: until, EventKey: *r.key},
	}
	if !s.window.Since.Before(s.window.Until) {
		return fmt.Errorf("--since (%s) is not before --until (%s)", s.window.Since.Format(time.RFC3339), s.window.Until.Format(time.RFC3339))
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	switch {
	case s.in.Events == 0:
		s.Printf("No such events were published since %s. (Events older than OUTBOX_RETENTION are pruned.)",
			s.window.Since.Format(time.RFC3339))
		return nil
	case *r.dryRun:
		err := s.forEachPage(ctx, func([]outbox.Published) error { return nil })
		s.Printf("%s would be sent again. Nothing was sent.", event.Count(s.sent))
		return err
	}
	err = d.Broker(ctx, s.send)
	if s.sent > 0 {
		slog.InfoContext(ctx, "events republished", "events", s.sent, "since", s.window.Since, "until", s.window.Until, "by", d.By)
	}
	if err != nil {
		return s.resumeError(err)
	}
	s.Printf("%s sent again.", event.Count(s.sent))
	return nil
}
