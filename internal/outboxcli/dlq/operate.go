// Package dlq has the operators' commands on the dead letters: list, show, replay, discard. It
// parses their arguments, records decisions, and prints results. The library's package rabbitmq
// reads and changes the queue.
//
// # What is recorded
//
// A change works in batches of at most 100 messages. It takes the messages of a batch, and while it
// holds them nobody else can change them. Then it records their ids in the database, and only then
// it changes them. No transaction spans the database and the broker, so a process can die in
// between:
//
//   - Before the record: nothing is changed.
//   - After it: the record has no end. It says that at most these messages were changed.
//   - A replayed copy has the header x-operator-decision, also if the record has no end.
//
// A record has an end when the broker has removed what was changed, and the number is known.
package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

const message cli.Noun = "message"

// Dependencies are what a command needs.
type Dependencies struct {
	Queue    string // the name of the queue of dead letters
	Open     Open
	Database Database  // for replay and discard
	Out      io.Writer // the result
	Progress io.Writer // the progress of a long command
	By       string    // the operator
}

// Letters are the dead letters: [rabbitmq.DeadLetters], without its end.
type Letters interface {
	Count() int
	Next() (rabbitmq.DeadLetter, bool, error)
	Replay(ctx context.Context, l rabbitmq.DeadLetter, headers map[string]any) publish.Result
	Discard(l rabbitmq.DeadLetter) error
	Removed() error
}

// Open calls use once, with the dead letters. Then it gives back those that were not removed.
type Open func(ctx context.Context, use func(context.Context, Letters) error) error

// OpenQueue opens the dead letters of a queue. It waits for a session with the broker at most for
// timeout. It declares nothing: only the service declares its queues.
func OpenQueue(connection rabbitmq.Config, queue rabbitmq.Queue, timeout time.Duration) Open {
	return func(ctx context.Context, use func(context.Context, Letters) error) error {
		return cli.WithSession(ctx, connection, timeout, func(ctx context.Context, s *rabbitmq.Session) (err error) {
			letters, err := s.DeadLetters(queue)
			if errors.Is(err, rabbitmq.ErrNoQueue) {
				return fmt.Errorf("%w; check that AMQP_URL names the right virtual host, and start the service %s: it declares its queues", err, queue.Name)
			}
			if err != nil {
				return err
			}
			defer func() {
				if failed := letters.Close(); err == nil {
					err = failed
				}
			}()
			return use(ctx, letters)
		})
	}
}

// Recorder records what a change is about to do, and then how much of it was done: an
// [operate.Log].
type Recorder interface {
	Begin(ctx context.Context, by operate.By, action operate.Action, items []string) (row uuid.UUID, err error)
	Finish(ctx context.Context, row uuid.UUID, done int) error
}

// Database calls use with where decisions are recorded. If the database is away, it returns an
// error that says what to do.
type Database func(ctx context.Context, use func(Recorder) error) error

// each calls visit with each dead letter, until visit returns false or ctx ends, and reports the
// progress.
func (deps Dependencies) each(ctx context.Context, letters Letters, visit func(rabbitmq.DeadLetter) (goOn bool, err error)) error {
	progress := cli.Progress{To: deps.Progress, Noun: message, Total: letters.Count()}
	for seen := 0; ctx.Err() == nil; seen++ {
		if seen > 0 && (seen%cli.BatchSize == 0 || seen == progress.Total) {
			progress.At(seen)
		}
		l, ok, err := letters.Next()
		if err != nil || !ok {
			return err
		}
		if goOn, err := visit(l); err != nil || !goOn {
			return err
		}
	}
	return context.Cause(ctx)
}

// Action is a command with its arguments.
type Action = cli.Action[Dependencies]

type command = cli.Command[Dependencies]

func commands(program string) cli.Program[Dependencies] {
	return cli.Program[Dependencies]{
		Name:     program,
		Commands: []command{list(program), show(program), replay(program), discard(program)},
		Example: `For example, see which
messages failed and why, and send them to the consumer again when the cause is gone:

  ` + program + ` list
  ` + program + ` replay --all --dry-run
  ` + program + ` replay --all

` + concurrencyNote,
	}
}

// recordNote is in the help of each command that changes something.
const recordNote = `Each change is recorded in the service's database before it is made: by whom, what was
chosen, and which ids. So the database must run.

`

// concurrencyNote is in each help, because it surprises people.
const concurrencyNote = `A command reads the messages that are in the queue when it begins. It does not see
messages that another operator's command holds at that time.`

// Parse returns the action that args name, for the dead letters of a service. If they ask for help,
// it writes the help to out and returns [flag.ErrHelp].
func Parse(service string, args []string, out io.Writer) (Action, error) {
	return commands(service+" dlq").Parse(args, out)
}
