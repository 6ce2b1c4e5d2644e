package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// command is a command of stack.
type command struct {
	name      string
	arguments []string
	help      string
	exclusive bool // it changes the running system
	flags     func(*stack, *flag.FlagSet)
	run       func(*stack, context.Context, []string) error
}

var commands = []command{
	{
		name: "servers",
		help: `Finds, starts or installs PostgreSQL and RabbitMQ, and prints their
addresses for the shell: eval "$(scripts/stack servers)"`,
		exclusive: true,
		run:       (*stack).servers,
	},
	{
		name: "browser",
		help: "Installs Chromium for the tests of the page, if no browser is there.",
		run:  (*stack).browser,
	},
	{
		name:      "up",
		help:      "Builds, migrates and starts both services, and waits until they are ready.",
		exclusive: true,
		run:       (*stack).up,
	},
	{
		name:      "down",
		help:      "Stops everything that `up` and `servers` have started. Keeps the databases.",
		exclusive: true,
		run:       (*stack).down,
	},
	{
		name:      "kill",
		arguments: []string{"SERVICE"},
		help:      "Kills order-service or notification-service, as a crash would.",
		exclusive: true,
		run:       (*stack).kill,
	},
	{
		name:      "stop",
		arguments: []string{"NAME"},
		help:      "Stops a service, PostgreSQL or RabbitMQ, if `up` has started it.",
		exclusive: true,
		run:       (*stack).stop,
	},
	{
		name:      "start",
		arguments: []string{"NAME"},
		help:      "Starts a killed or stopped service or server again, and waits until it is ready.",
		exclusive: true,
		run:       (*stack).start,
	},
	{
		name:      "run",
		arguments: []string{"SERVICE", "ARGUMENT..."},
		help:      "Runs a command of a service with its configuration: run order-service outbox list",
		run:       (*stack).runCommand,
	},
	{
		name: "databases",
		help: "Prints the flags --order-db and --notification-db with the owners' URLs.",
		run:  (*stack).printDatabases,
	},
	{
		name:      "show",
		arguments: []string{"ORDER_ID"},
		help:      "Shows when an order passed each layer. Waits until its e-mail is sent.",
		flags:     (*stack).databaseFlags,
		run:       (*stack).show,
	},
}

const environmentHelp = `
Environment:
  DATABASE_SERVER_URL  a PostgreSQL in which databases may be created
                       (` + defaultDatabaseServer + `)
  AMQP_URL             a RabbitMQ
                       (` + defaultBroker + `)
  ` + privateOnly + `      set to anything: look for neither, and start private ones
  ` + noInstall + `           set to anything: never install PostgreSQL, RabbitMQ or Chromium with apt-get
  ` + yesInstall + `              set to anything: install what is missing without a question
  All other variables reach the services as they are, SMTP_URL for instance.
`

func printUsage(w io.Writer) {
	fmt.Fprint(w, "Runs the system as processes. In the repository's root:\n\n")
	for _, c := range commands {
		c.printHelp(w)
	}
	fmt.Fprint(w, environmentHelp)
}

func (c command) printHelp(w io.Writer) {
	fmt.Fprintf(w, "scripts/stack %s", c.name)
	for _, a := range c.arguments {
		fmt.Fprintf(w, " %s", a)
	}
	fmt.Fprintf(w, "\n%s\n\n", c.help)
}

// takes reports whether n arguments are valid.
func (c command) takes(n int) bool {
	if len(c.arguments) > 0 && strings.HasSuffix(c.arguments[len(c.arguments)-1], "...") {
		return n >= len(c.arguments)
	}
	return n == len(c.arguments)
}

// start parses the arguments, opens the stack in the working folder, and runs the command.
func (c command) start(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := &stack{out: stdout, log: stderr}
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { c.printHelp(stderr); flags.PrintDefaults() }
	if c.flags != nil {
		c.flags(s, flags)
	}
	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp // Parse has printed the error
	}
	if !c.takes(flags.NArg()) {
		flags.Usage()
		return flag.ErrHelp
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := s.open(root, c.exclusive); err != nil {
		return err
	}
	return c.run(s, ctx, flags.Args())
}
