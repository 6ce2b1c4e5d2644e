// Package operate is the operators' commands on the dead letters: list, show, replay,
// discard.
//
// # One look through the queue
//
//	take a message ─► chosen? ─► copy confirmed ─► removed
//	                   └─ no, or no copy: held, and given back at the end
//
// A queue has no other way to look into it than to take what is in it. So while a
// command runs, nobody else sees what it holds; and when it dies at any step, the
// broker puts that back. A message that is copied and not yet removed is then in both
// queues, with one id, and the consumer's inbox knows the second one.
//
// # What it does not promise
//
// The order of the queue, once a message is removed or a look ends before the queue does.
package operate

import (
	"context"
	"io"
	"time"

	"example.com/transactional-outbox/internal/operator"
	"example.com/transactional-outbox/internal/rabbitmq"
)

const (
	program = "notification-service dlq"

	message operator.Noun = "message"
)

// Desk is what an operator works at.
type Desk struct {
	Broker   Broker
	Queue    string    // where the dead letters are
	Requeue  string    // a fanout exchange to which only the service's own queue is bound
	Out      io.Writer // what was asked for
	Progress io.Writer // how far long work is
	By       string    // who works here, for the log
}

// Broker runs use once, on a session with the broker.
type Broker func(ctx context.Context, use func(context.Context, Session) error) error

// Session is a connection with the broker.
type Session interface {
	// Browse begins to look through a queue.
	Browse(queue string) (Browser, error)
	// NewPublisher opens a channel for batches of at most window messages.
	NewPublisher(window int) (Publisher, error)
	// Unblocked waits until the broker takes messages.
	Unblocked(ctx context.Context) error
}

// Browser takes the messages of a queue, one after the other, and gives back those that
// were not removed.
type Browser interface {
	Count() int
	Next() (taken rabbitmq.Taken, ok bool, err error)
	GiveBack() error
}

// Publisher publishes a batch and waits for the outcomes.
type Publisher interface {
	Publish(messages []rabbitmq.Message, timeout time.Duration) []rabbitmq.Result
}

// On lets the commands see a session through their own interface.
func On(s *rabbitmq.Session) Session { return session{s} }

type session struct{ *rabbitmq.Session }

// Browse begins to look through a queue.
func (s session) Browse(queue string) (Browser, error) { return s.Session.Browse(queue) }

// NewPublisher opens a channel.
func (s session) NewPublisher(window int) (Publisher, error) { return s.Session.NewPublisher(window) }

// Action is a command with its arguments.
type Action = operator.Action[Desk]

type command = operator.Command[Desk]

var commands = operator.Program[Desk]{
	Name:     program,
	Commands: []command{list, show, replay, discard},
	Example: `For example, to see what failed and why, and to
send it to the consumer again once the cause is gone:

  ` + program + ` list
  ` + program + ` replay --all --dry-run
  ` + program + ` replay --all

` + inOtherHands,
}

// inOtherHands is in each help: it is what surprises.
const inOtherHands = `A command looks at the messages that are in the queue when it begins. It does not see
those that another operator's command has in its hands at that time.`

// Parse returns the action that args name. When they ask for help, it writes that to
// out and returns [flag.ErrHelp].
func Parse(args []string, out io.Writer) (Action, error) { return commands.Parse(args, out) }
