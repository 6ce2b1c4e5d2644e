package cli

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
)

var discard = command{
	Name: "discard", Arguments: "ID… | --reason CODE | --routing-key KEY | --older-than TIME | --all [flags]",
	Does: "delete messages for good",
	More: `Deletes messages from the dead letters. They never have their effect. This cannot be
undone. The log says what was deleted, without the bodies. For example:

  ` + program + ` discard 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57
  ` + program + ` discard --reason malformed --older-than 720h --dry-run

` + concurrencyNote,
	Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
		return defineChange(flags, change{
			verb: "discard", past: "discarded",
			begin: func(deps Dependencies, _ Session) (apply, error) { return deps.discard, nil },
		})
	},
}

// discard logs before it removes, so that no message is removed without a log line.
func (deps Dependencies) discard(ctx context.Context, f found) (refusal string, err error) {
	slog.InfoContext(ctx, "dead letter discarded", "message_id", f.ID, "routing_key", f.RoutingKey,
		"failure_code", f.Code, "failure_reason", f.Reason, "size", f.Size, "by", deps.By)
	if err := f.Remove(); err != nil {
		return "", fmt.Errorf("%s is still here: %w", f.ID, err)
	}
	return "", nil
}
