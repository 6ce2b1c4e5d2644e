package cli

import (
	"context"
	"flag"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

var replay = command{
	Name: "replay", Arguments: "ID… | --event-key KEY | --older-than TIME | --all [flags]",
	Does: "send failed events again",
	More: `Sets failed events back to pending, with all their attempts. The relay then publishes
them, and the later events of their orders after them. For example:

  ` + program + ` replay 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57
  ` + program + ` replay --event-key order.created --older-than 1h --dry-run`,
	Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
		return defineDecision(flags, decision{
			verb: "replay", done: "replayed", decide: (*outbox.Operator).Replay,
		})
	},
}

var discard = command{
	Name: "discard", Arguments: "ID… | --event-key KEY | --older-than TIME | --all [flags]",
	Does: "give failed events up for good",
	More: `Gives failed events up: they are never published. Later events of their orders no
longer wait for them. This cannot be undone. For example:

  ` + program + ` discard 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57
  ` + program + ` discard --older-than 720h --dry-run`,
	Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
		return defineDecision(flags, decision{
			verb: "discard", done: "discarded", decide: (*outbox.Operator).Discard,
		})
	},
}

// decision is a command that replays or discards failed events.
type decision struct {
	verb, done string
	decide     func(*outbox.Operator, context.Context, audit.By, []uuid.UUID) ([]outbox.Entry, error)

	ids            []uuid.UUID
	key            *string
	age            *time.Duration
	dryRun, asJSON *bool
}

func defineDecision(flags *flag.FlagSet, c decision) func([]string) (Action, error) {
	c.key, c.age, c.dryRun, c.asJSON = defineKey(flags), defineAge(flags), cli.DefineDryRun(flags), cli.DefineJSON(flags)
	choice := cli.Choice{Noun: event, Every: "every failed event", Filters: []string{"--event-key", "--older-than"}}
	choice.Define(flags)
	return func(args []string) (_ Action, err error) {
		if err := choice.Check(c.verb, len(args), *c.key != "" || *c.age > 0); err != nil {
			return nil, err
		}
		if c.ids, err = parseIDs(args); err != nil {
			return nil, err
		}
		// Compact removes duplicates only from a sorted slice.
		slices.SortFunc(c.ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		c.ids = slices.Compact(c.ids)
		return c.run, nil
	}
}

// chosen says what the operator chose, for the record of the decision.
func (c decision) chosen() string {
	switch filters := filterFlags(*c.key, *c.age); {
	case len(c.ids) > 0:
		return audit.ByIDs
	case filters == "":
		return "--all"
	default:
		return filters
	}
}
