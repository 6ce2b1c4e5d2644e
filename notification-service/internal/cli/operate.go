// Package cli has the operators' commands on the dead letters: list, show, replay, discard. It parses
// their arguments and prints results. What they do is in package deadletter.
package cli

import (
	"context"
	"io"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
)

const (
	program = "notification-service dlq"

	message cli.Noun = "message"
)

// Dependencies are what a command needs.
type Dependencies struct {
	Queue    deadletter.Queue
	Database Database  // for replay and discard
	Out      io.Writer // the result
	Progress io.Writer // the progress of a long command
	By       string    // the operator
}

// Database calls use with where decisions are recorded. If the database is away, it returns an error
// that says what to do.
type Database func(ctx context.Context, use func(deadletter.Recorder) error) error

// progress returns what reports how much of the queue a command has read.
func (deps Dependencies) progress() deadletter.Progress {
	progress := cli.Progress{To: deps.Progress, Noun: message}
	return func(seen, total int) {
		if seen > 0 && (seen%cli.BatchSize == 0 || seen == total) {
			progress.Total = total
			progress.At(seen)
		}
	}
}

// Action is a command with its arguments.
type Action = cli.Action[Dependencies]

type command = cli.Command[Dependencies]

var commands = cli.Program[Dependencies]{
	Name:     program,
	Commands: []command{list, show, replay, discard},
	Example: `For example, see which
messages failed and why, and send them to the consumer again when the cause is gone:

  ` + program + ` list
  ` + program + ` replay --all --dry-run
  ` + program + ` replay --all

` + concurrencyNote,
}

// recordNote is in the help of each command that changes something.
const recordNote = `Each change is recorded in the service's database before it is made: by whom, what was
chosen, and which ids. So the database must run.

`

// concurrencyNote is in each help, because it surprises people.
const concurrencyNote = `A command reads the messages that are in the queue when it begins. It does not see
messages that another operator's command holds at that time.`

// Parse returns the action that args name. If they ask for help, it writes the help to out and
// returns [flag.ErrHelp].
func Parse(args []string, out io.Writer) (Action, error) { return commands.Parse(args, out) }
