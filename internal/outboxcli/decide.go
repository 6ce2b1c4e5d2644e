package outboxcli

import (
	"context"
	"flag"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
)

func (s Service) replay() command {
	return command{
		Name: "replay", Arguments: "ID… | --topic TOPIC | --older-than TIME | --all [flags]",
		Does: "send failed events again",
		More: `Sets failed events back to pending, with all their attempts. The relay then sends them,
and the later events of their orders after them. An event that a newer one of its order
has superseded is refused. For example:

  ` + s.program() + ` replay 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57
  ` + s.program() + ` replay --topic ` + s.Topic + ` --older-than 1h --dry-run`,
		Define: decision{Service: s, action: operate.Replay, decide: (*operate.Operator).Replay}.define,
	}
}

func (s Service) discard() command {
	return command{
		Name: "discard", Arguments: "ID… | --topic TOPIC | --older-than TIME | --all [flags]",
		Does: "give failed events up for good",
		More: `Gives failed events up: they are never sent. Later events of their orders no longer
wait for them. This cannot be undone. For example:

  ` + s.program() + ` discard 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57
  ` + s.program() + ` discard --older-than 720h --dry-run`,
		Define: decision{Service: s, action: operate.Discard, decide: (*operate.Operator).Discard}.define,
	}
}

// decision is a command that replays or discards failed events.
type decision struct {
	Service
	action operate.Action
	decide func(*operate.Operator, context.Context, operate.By, []uuid.UUID) (operate.Result, error)

	ids            []uuid.UUID
	topic          *string
	age            *time.Duration
	dryRun, asJSON *bool
}

func (c decision) define(flags *flag.FlagSet) func([]string) (Action, error) {
	c.topic, c.age, c.dryRun, c.asJSON = c.defineTopic(flags), defineAge(flags), cli.DefineDryRun(flags), cli.DefineJSON(flags)
	choice := cli.Choice{Noun: event, Every: "every failed event", Filters: []string{"--topic", "--older-than"}}
	choice.Define(flags)
	return func(args []string) (_ Action, err error) {
		if err := choice.Check(string(c.action), len(args), *c.topic != "" || *c.age > 0); err != nil {
			return nil, err
		}
		if c.ids, err = c.parseIDs(args); err != nil {
			return nil, err
		}
		// Compact removes duplicates only from a sorted slice.
		slices.SortFunc(c.ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		c.ids = slices.Compact(c.ids)
		return c.run, nil
	}
}

// past is what the events are afterwards: replayed or discarded.
func (c decision) past() string { return string(c.action) + "ed" }

// chosen says what the operator chose, for the record of the decision.
func (c decision) chosen() string {
	switch filters := filterFlags(*c.topic, *c.age); {
	case len(c.ids) > 0:
		return operate.ByIDs
	case filters == "":
		return "--all"
	default:
		return filters
	}
}
