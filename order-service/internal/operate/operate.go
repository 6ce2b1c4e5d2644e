// Package operate is the operators' commands on the outbox: list, show, replay,
// discard, republish. It reads their arguments and prints; the statements are the
// outbox's.
//
// What was asked for goes to stdout. Progress, and one line of the log for each event
// that a command changed, go to stderr.
package operate

import (
	"context"
	"io"

	"example.com/transactional-outbox/internal/operator"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
)

const program = "order-service outbox"

const event operator.Noun = "event"

// batchSize is how many events are changed in one transaction, read at a time, and
// under way to the broker at a time.
const batchSize = operator.BatchSize

// Desk is what an operator works at.
type Desk struct {
	Outbox   *outbox.Operator
	Relay    relay.Config // how an event looks to the broker
	Broker   Broker
	Out      io.Writer // what was asked for
	Progress io.Writer // how far long work is
	By       string    // who works here, for the log
}

// Broker runs use once, on a session with the broker.
type Broker func(ctx context.Context, use func(context.Context, relay.Broker) error) error

// Action is a command with its arguments.
type Action = operator.Action[Desk]

type command = operator.Command[Desk]

var commands = operator.Program[Desk]{
	Name:     program,
	Commands: []command{list, show, replay, discard, republish},
	Example: `For example, to see what failed and why, and to
send it again once the cause is gone:

  ` + program + ` list
  ` + program + ` replay --all --dry-run
  ` + program + ` replay --all`,
}

// Parse returns the action that args name. When they ask for help, it writes that to
// out and returns [flag.ErrHelp].
func Parse(args []string, out io.Writer) (Action, error) { return commands.Parse(args, out) }
