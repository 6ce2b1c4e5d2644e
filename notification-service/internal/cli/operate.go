// Package cli has the operators' commands on the dead letters: list, show, replay, discard.
//
// # How a command reads the queue
//
//	take a message ─► chosen? ─► copy confirmed ─► removed
//	                   └─ no, or no copy: held, and given back at the end
//
// To read a queue, a command must take its messages. So while a command runs, no other client
// sees the messages that it holds. If the command dies at any step, the broker puts them back. A
// message that is copied and not yet removed is then in both queues, with the same id. The
// consumer's inbox recognises the second one as a duplicate.
//
// # What it does not promise
//
// The order of the queue, after a message is removed or a command stops before the queue's end.
package cli

import (
	"context"
	"io"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/rabbitmq"
)

const (
	program = "notification-service dlq"

	message cli.Noun = "message"
)

// Dependencies are what a command needs.
type Dependencies struct {
	Broker   Broker
	Queue    string    // where the dead letters are
	Requeue  string    // a fanout exchange to which only the service's own queue is bound
	Out      io.Writer // the result
	Progress io.Writer // the progress of a long command
	By       string    // the operator, for the log
}

// Broker calls use once, with a session.
type Broker func(ctx context.Context, use func(context.Context, Session) error) error

// Session is a connection with the broker.
type Session interface {
	// Browse begins to read a queue.
	Browse(queue string) (Browser, error)
	// NewPublisher opens a channel for batches of at most window messages.
	NewPublisher(window int) (Publisher, error)
	// Unblocked waits until the broker takes messages.
	Unblocked(ctx context.Context) error
}

// Browser takes the messages of a queue, one after the other. At the end it gives back those
// that were not removed.
type Browser interface {
	Count() int
	Next() (taken rabbitmq.BrowsedMessage, ok bool, err error)
	Requeue() error
}

// Publisher publishes a batch and waits for the outcomes.
type Publisher interface {
	Publish(messages []rabbitmq.Message, timeout time.Duration) []rabbitmq.Result
}

// Adapt returns s as the interface that the commands use.
func Adapt(s *rabbitmq.Session) Session { return session{s} }

type session struct{ *rabbitmq.Session }

// Browse begins to read a queue.
func (s session) Browse(queue string) (Browser, error) { return s.Session.Browse(queue) }

// NewPublisher opens a channel.
func (s session) NewPublisher(window int) (Publisher, error) { return s.Session.NewPublisher(window) }

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

// concurrencyNote is in each help, because it surprises people.
const concurrencyNote = `A command reads the messages that are in the queue when it begins. It does not see
messages that another operator's command holds at that time.`

// Parse returns the action that args name. If they ask for help, it writes the help to out and
// returns [flag.ErrHelp].
func Parse(args []string, out io.Writer) (Action, error) { return commands.Parse(args, out) }
