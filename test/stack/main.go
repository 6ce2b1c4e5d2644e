// Command stack runs the whole system as processes, on a machine without Docker.
//
// It uses a PostgreSQL and a RabbitMQ that are running. Otherwise it starts private ones from the
// installed programs, in .stack/, or installs them first. The processes that it starts keep
// running. .stack/state.json lists them, so that `down` stops them and nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `Runs the system as processes. In the repository's root:

scripts/stack servers PACKAGE...  finds, starts or installs PostgreSQL and RabbitMQ, and prints their
                                  addresses for the shell: eval "$(scripts/stack servers)". It
                                  installs the packages too
scripts/stack browser             installs Chromium for the tests of the page, if there is no browser
scripts/stack up                  builds, migrates and starts both services, and waits until they are
                                  ready
scripts/stack down                stops what up and servers have started, and keeps the databases
scripts/stack kill SERVICE        kills order-service or notification-service, as a crash would
scripts/stack stop NAME           stops a service, or a PostgreSQL or RabbitMQ that up has started
scripts/stack start NAME          starts it again, and waits until it is ready
scripts/stack run SERVICE ARG...  runs a command of a service: run order-service outbox list
scripts/stack databases           prints the flags of show, with the owners' URLs
scripts/stack show [--order-db URL --notification-db URL] ORDER_ID
                                  waits until the order's e-mail is sent, and shows when the order
                                  passed each layer

Environment:
  DATABASE_SERVER_URL  a PostgreSQL in which databases and roles may be created
                       (` + defaultDatabaseServer + `)
  AMQP_URL             a RabbitMQ
                       (` + defaultBroker + `)
  PRIVATE_SERVERS      set to anything: look for neither, and start private ones
  NO_INSTALL           set to anything: never install anything with apt-get
  INSTALL              set to anything: install what is missing without a question
  All other variables reach the services as they are, SMTP_URL for instance.
`

// command is a command of stack.
type command struct {
	least, most int  // how many arguments it takes
	exclusive   bool // it changes the running system
	run         func(*stack, context.Context, []string) error
}

const anyNumber = 1 << 20

var commands = map[string]command{
	"servers":   {0, anyNumber, true, (*stack).servers},
	"browser":   {0, 0, false, (*stack).browser},
	"up":        {0, 0, true, (*stack).up},
	"down":      {0, 0, true, (*stack).down},
	"kill":      {1, 1, true, (*stack).kill},
	"stop":      {1, 1, true, (*stack).stop},
	"start":     {1, 1, true, (*stack).start},
	"run":       {2, anyNumber, false, (*stack).runCommand},
	"databases": {0, 0, false, (*stack).printDatabases},
	"show":      {1, anyNumber, false, (*stack).show},
}

// errUsage is for a wrong call: the usage has been printed.
var errUsage = errors.New("see the usage above")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "stack:", err)
	if errors.Is(err, errUsage) || errors.Is(err, errNotStarted) {
		os.Exit(2) // nothing was tried
	}
	os.Exit(1)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 1 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help") {
		_, err := io.WriteString(stdout, usage)
		return err
	}
	if len(args) == 0 {
		args = []string{""}
	}
	c, known := commands[args[0]]
	if n := len(args) - 1; !known || n < c.least || n > c.most {
		_, _ = io.WriteString(stderr, usage)
		return errUsage
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	s := &stack{root: root, out: stdout, log: stderr}
	if err := s.open(c.exclusive); err != nil {
		return err
	}
	return c.run(s, ctx, args[1:])
}
