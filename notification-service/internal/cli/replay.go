package cli

import (
	"flag"

	"example.com/transactional-outbox/outbox/operate"
)

var replay = command{
	Name: "replay", Arguments: "ID… | --reason CODE | --routing-key KEY | --older-than TIME | --all [flags]",
	Does: "send messages to the consumer again",
	More: `Sends messages to the consumer's queue again, each with the same id and with all its
retries. It removes a message from the dead letters after the broker has confirmed the
copy. A message that is sent twice does no harm, because the consumer knows the ids
that it has had.

It knows them for INBOX_RETENTION. An older message may be a duplicate, so this command
skips messages with the code outside-dedupe-window. With --force it sends them too, and
a customer may get an e-mail twice. For example:

  ` + program + ` replay 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57
  ` + program + ` replay --reason retries-exhausted --older-than 1h --dry-run

` + recordNote + concurrencyNote,
	Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
		force := flags.Bool("force", false, "also send messages that may have had their effect")
		return defineChange(flags, change{action: operate.Replay, past: "replayed", force: force})
	},
}
