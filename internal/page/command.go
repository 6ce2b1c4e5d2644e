package page

import (
	"context"
	"fmt"
	"os"
	"slices"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/internal/page/users"
)

const usage = `Usage: %[1]s page-user NAME read|operate

It reads a password of 12 to 72 bytes from stdin, and prints a line for PAGE_USERS
or PAGE_USERS_FILE. The line has the password's bcrypt hash. For example:

  %[1]s page-user ann operate < password >> page-users
`

// UserCommand is the command page-user. It needs no settings.
func UserCommand(service string) command.Command {
	return command.Command{
		Name: "page-user", Does: "print a line of PAGE_USERS: a user of the page",
		Run: func(_ context.Context, args []string) error {
			if len(args) == 1 && slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
				_, err := fmt.Printf(usage, service)
				return err
			}
			return users.PrintLine(args, os.Stdin, os.Stdout)
		},
	}
}
