// Package outboxcli has the operators' commands of both services: on the events of an outbox, and
// on dead letters. The library's packages operate and rabbitmq do the work. This package reads
// arguments, records decisions about dead letters, and prints results.
//
// Results go to stdout. Progress goes to stderr, and so does one log line for each thing that a
// command changes.
package outboxcli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// Service is whose commands these are.
type Service struct {
	Name        string // such as "order-service"; its queue has this name
	Schema      postgres.Migrations
	Topic       string // one of its topics, for the help
	Republishes bool   // it has the command republish
	Masked      bool   // the addresses in its events are shown in part
}

// queue is the consumer's queue. Those who read its dead letters need only its name.
func (s Service) queue() rabbitmq.Queue { return rabbitmq.Queue{Name: s.Name} }

// Action is a command with its arguments.
type Action func(context.Context, Servers) error

type eventCommands struct {
	List    list[eventsOf]            `cmd:"" help:"List events: the failed ones, or those of another status."`
	Show    show[events, uuid.UUID]   `cmd:"" help:"Show all of an event, what it waits for (blocked by), and how many wait for it."`
	Replay  decide[events, uuid.UUID] `cmd:"" help:"Send failed events again, and then the later ones of their orders."`
	Discard decide[events, uuid.UUID] `cmd:"" help:"Give events up for good that failed, or whose topic is paused. The later ones of their orders no longer wait."`
	Topics  list[pausedTopics]        `cmd:"" help:"List paused topics: since when, why, by whom, and how many events wait."`
	Pause   pause                     `cmd:"" help:"Hold the events of a topic back until it is resumed."`
	Resume  resume                    `cmd:"" help:"Send the events of a paused topic."`
}

// Outbox returns the command on the outbox that args name. If they ask for help, it writes the help
// to out, and returns [flag.ErrHelp].
func (s Service) Outbox(args []string, out io.Writer) (Action, error) {
	return s.action("outbox", s.eventCommands(), args, out)
}

func (s Service) eventCommands() any {
	if s.Republishes {
		return &allEventCommands{}
	}
	return &eventCommands{}
}

type allEventCommands struct {
	eventCommands
	Republish republish `cmd:"" help:"Send published events again, if the broker has lost them. It changes nothing here."`
}

type letterCommands struct {
	List    list[deadLetters]         `cmd:"" help:"List messages, with the reason why they are here."`
	Show    show[deadLetters, text]   `cmd:"" help:"Show all of a message."`
	Replay  decide[deadLetters, text] `cmd:"" help:"Send messages to the consumer again, with all their retries."`
	Discard decide[deadLetters, text] `cmd:"" help:"Delete messages for good."`
}

// DeadLetters is [Service.Outbox] for the commands on the dead letters. They are shown as they are:
// no other place has these messages.
func (s Service) DeadLetters(args []string, out io.Writer) (Action, error) {
	s.Masked = false
	return s.action("dlq", &letterCommands{}, args, out)
}

// action writes progress to stderr, as the log.
func (s Service) action(group string, commands any, args []string, out io.Writer) (Action, error) {
	run, err := s.parse(group, commands, args, out)
	return func(ctx context.Context, servers Servers) error {
		return run(ctx, newEnv(s, servers, out, os.Stderr))
	}, err
}

// about is the help of a group of commands.
const about = `See what failed and why, and send it again when the cause is gone:

    %[1]s list
    %[1]s replay --all --dry-run
    %[1]s replay --all --by ann

` + timeHelp + `

Each change is recorded in the database: who decided, what was chosen, and which ids. Results go to
stdout. The status is 0 if all was done, also if nothing matches. It is 1 if the command failed: the
message says what was done, and how to go on. It is 2 if something that was chosen stays as it was:
stderr has each with its reason.`

// deadLetterNote surprises people.
const deadLetterNote = `

A command reads the messages that are in the queue when it begins. It does not see messages that
another operator's command holds.`

func (s Service) parse(group string, commands any, args []string, out io.Writer) (func(context.Context, *env) error, error) {
	if len(args) == 0 || args[0] == "help" {
		args = append(args[min(len(args), 1):], "--help")
	}
	program, helped := s.Name+" "+group, false
	description := fmt.Sprintf(about, program)
	if group == "dlq" {
		description += deadLetterNote
	}
	parser, err := kong.New(
		commands, kong.Name(program), kong.Description(description), kong.Writers(out, out),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}), kong.Exit(func(int) { helped = true }),
		kong.Vars{"topic": s.Topic, "statuses": strings.Join(operate.Statuses(), ","), "user": operator()},
	)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(args)
	if helped {
		return nil, flag.ErrHelp
	}
	if err != nil {
		return nil, fmt.Errorf("%w; `%s help` says more", err, program)
	}
	return func(ctx context.Context, e *env) error {
		parsed.BindTo(ctx, (*context.Context)(nil))
		return parsed.Run(e)
	}, nil
}

// operator is who decides, unless --by says it.
func operator() string {
	name := fmt.Sprintf("uid %d", os.Getuid()) // a container may have no user names
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return cmp.Or(os.Getenv("OPERATOR"), name)
}
