// Package outboxcli has the operators' commands on an outbox: list, show, replay, discard,
// republish, topics, pause and resume. Both services have them. It parses their arguments and
// prints results. The rest is in the library's package operate.
//
// Results go to stdout. Progress goes to stderr, and so does one log line for each event that a
// command changes. Each decision is also recorded in the database.
package outboxcli

import (
	"context"
	"io"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
)

const event cli.Noun = "event"

// batchSize is how many events are changed in one transaction, and read at once.
const batchSize = cli.BatchSize

// Service is whose outbox it is.
type Service struct {
	Name        string // such as "order-service"
	Destination string // where its events go, such as "the broker"
	Topic       string // one of its topics, for examples
	Again       string // what follows if an event is sent again: sentences of at most 88 characters a line
	Masked      bool   // e-mail addresses are shown in part
	// Advice says what to do if an event was not taken. It may be nil.
	Advice func(publish.Outcome) string
}

func (s Service) program() string { return s.Name + " outbox" }

// Dependencies are what a command needs.
type Dependencies struct {
	Outbox         *operate.Operator
	Destination    Destination   // only republish uses it
	AppID          string        // of the messages
	ConfirmTimeout time.Duration // of each batch of them
	Out            io.Writer     // results
	Progress       io.Writer     // progress of long commands
	By             string        // the operator's name
}

// Destination runs use once, on a session with the destination.
type Destination func(ctx context.Context, use func(context.Context, publish.Session) error) error

// Action is a command with its arguments.
type Action = cli.Action[Dependencies]

type command = cli.Command[Dependencies]

// Parse returns the action that args name. When they ask for help, it writes that to
// out and returns [flag.ErrHelp].
func (s Service) Parse(args []string, out io.Writer) (Action, error) {
	commands := cli.Program[Dependencies]{
		Name: s.program(),
		Commands: []command{
			s.list(), s.show(), s.replay(), s.discard(), s.republish(), s.topics(), s.pause(), s.resume(),
		},
		Example: `For example, see which events failed
and why, and send them again when the cause is gone:

  ` + s.program() + ` list
  ` + s.program() + ` replay --all --dry-run
  ` + s.program() + ` replay --all`,
	}
	return commands.Parse(args, out)
}
