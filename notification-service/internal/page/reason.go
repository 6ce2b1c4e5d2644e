package page

import (
	"context"
	"errors"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// shownErrors are those of the dead letters whose own text any user may see. The text of others may
// have the names of hosts, or come from a message.
var shownErrors = []error{
	cli.ErrNoSession, rabbitmq.ErrNoQueue, deadletter.ErrBlocked, deadletter.ErrNotTaken, deadletter.ErrNotRecorded,
}

// reason says why the dead letters could not be read or changed, for any user.
func reason(err error) string {
	for _, shown := range shownErrors {
		if errors.Is(err, shown) {
			return "The reason: " + shown.Error() + "."
		}
	}
	if errors.Is(err, context.Canceled) {
		return "The process was stopped."
	}
	return "The log of the service says why."
}
