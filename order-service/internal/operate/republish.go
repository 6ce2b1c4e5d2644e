package operate

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/operator"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

var republish = command{
	Name: "republish", Arguments: "--since TIME [flags]",
	Does: "send published events again, for a broker that lost its disk",
	More: `Sends events again that were published, each with the id that it had, the events of
one order in the order of their versions. It changes nothing in the outbox, and it is
safe to repeat: consumers know the ids that they have had. Start the consumers first,
so that their queues are there. For example, when the broker's disk of the last day
is gone:

  ` + program + ` republish --since 24h --dry-run
  ` + program + ` republish --since 2026-01-31T08:00:00Z --event-key order.created`,
	Define: defineRepublish,
}

type republication struct {
	since, until   *moment
	key            *string
	after          uuid.UUID
	dryRun, asJSON *bool
}

func defineRepublish(flags *flag.FlagSet) func([]string) (Action, error) {
	r := republication{
		since: defineMoment(flags, "since", "events that were published at this `TIME` or later: 24h (ago), or 2026-01-31T08:00:00Z"),
		until: defineMoment(flags, "until", "and before this `TIME`; now, if it is left out"),
		key:   defineKey(flags), dryRun: operator.DefineDryRun(flags), asJSON: operator.DefineJSON(flags),
	}
	flags.Func("after", "go on behind this `ID`, where an earlier run stopped", func(value string) error {
		ids, err := identifiers([]string{value})
		if err == nil {
			r.after = ids[0]
		}
		return err
	})
	return func(args []string) (Action, error) {
		if err := operator.NoOthers(args); err != nil {
			return nil, err
		}
		if !r.since.given() {
			return nil, errors.New("say with --since from when on, such as --since 24h")
		}
		return r.run, nil
	}
}

func (r republication) run(ctx context.Context, d Desk) error {
	now, err := d.Outbox.Now(ctx)
	if err != nil {
		return err
	}
	s := sending{
		Desk: d, Printer: operator.Printer{Out: d.Out, JSON: *r.asJSON}, each: *r.asJSON || *r.dryRun, last: r.after,
		window: outbox.Window{Since: r.since.before(now), Until: r.until.before(now), EventKey: *r.key},
	}
	if !s.window.Since.Before(s.window.Until) {
		return fmt.Errorf("--since (%s) is not before --until (%s)", s.window.Since.Format(time.RFC3339), s.window.Until.Format(time.RFC3339))
	}
	if err := s.find(ctx); err != nil {
		return err
	}
	switch {
	case s.total == 0:
		s.Say("No events like that were published since %s (what was published longer ago than OUTBOX_RETENTION is pruned).",
			s.window.Since.Format(time.RFC3339))
		return nil
	case *r.dryRun:
		err := s.pages(ctx, func([]outbox.Published) error { return nil })
		s.Say("%s would be sent again. Nothing was sent.", event.Count(s.sent))
		return err
	}
	err = d.Broker(ctx, s.send)
	if s.sent > 0 {
		slog.InfoContext(ctx, "events republished", "events", s.sent, "since", s.window.Since, "until", s.window.Until, "by", d.By)
	}
	if err != nil {
		return s.stopped(err)
	}
	s.Say("%s sent again.", event.Count(s.sent))
	return nil
}
