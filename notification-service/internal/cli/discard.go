package cli

import (
	"flag"

	"example.com/transactional-outbox/outbox/operate"
)

var discard = command{
	Name: "discard", Arguments: "ID… | --reason CODE | --routing-key KEY | --older-than TIME | --all [flags]",
	Does: "delete messages for good",
	More: `Deletes messages from the dead letters. They never have their effect. This cannot be
undone. The log says what was deleted, without the bodies. For example:

  ` + program + ` discard 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57
  ` + program + ` discard --reason malformed --older-than 720h --dry-run

` + recordNote + concurrencyNote,
	Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
		return defineChange(flags, change{action: operate.Discard, past: "discarded"})
	},
}
