// Package cli has the operators' commands on the outbox: list, show, replay, discard,
// republish, topics, pause and resume. It parses their arguments and prints results. The rest is in
// the library's package operate.
//
// Results go to stdout. Progress goes to stderr, and so does one log line for each event that a
// command changes. Each decision is also recorded in the database.
package cli

import (
	"context"
	"io"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
)

const program = "order-service outbox"

const event cli.Noun = "event"

// batchSize is how many events are changed in one transaction, and read at once.
const batchSize = cli.BatchSize

// Dependencies are what a command needs.
type Dependencies struct {
	Outbox         *operate.Operator
	Broker         Broker
	AppID          string        // of the messages
	ConfirmTimeout time.Duration // of each batch of them
	Out            io.Writer     // results
	Progress       io.Writer     // progress of long commands
	By             string        // the operator's name
}

// Broker runs use once, on a session with the broker.
type Broker func(ctx context.Context, use func(context.Context, publish.Session) error) error

// Action is a command with its arguments.
type Action = cli.Action[Dependencies]

type command = cli.Command[Dependencies]

var commands = cli.Program[Dependencies]{
	Name:     program,
	Commands: []command{list, show, replay, discard, republish, topics, pause, resume},
	Example: `For example, see which events failed
and why, and send them again when the cause is gone:

  ` + program + ` list
  ` + program + ` replay --all --dry-run
  ` + program + ` replay --all`,
}

// Parse returns the action that args name. When they ask for help, it writes that to
// out and returns [flag.ErrHelp].
func Parse(args []string, out io.Writer) (Action, error) { return commands.Parse(args, out) }
