package outboxcli

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
)

// defineTopic adds --topic.
func (s Service) defineTopic(flags *flag.FlagSet) *string {
	return cli.DefineText(flags, "topic", "only events of this `TOPIC`", s.Topic)
}

// defineAge adds --older-than.
func defineAge(flags *flag.FlagSet) *time.Duration {
	return cli.DefineAge(flags, "older-than", "only events that failed (others: were created) this `TIME` ago or earlier")
}

// filterFlags returns the flags of a filter as an operator would write them; "" if there are none.
func filterFlags(topic string, age time.Duration) string {
	var flags []string
	if topic != "" {
		flags = append(flags, "--topic "+topic)
	}
	if age > 0 {
		flags = append(flags, "--older-than "+age.String())
	}
	return strings.Join(flags, " ")
}

// parseIDs parses the ids of events.
func (s Service) parseIDs(args []string) ([]uuid.UUID, error) {
	ids := make([]uuid.UUID, 0, len(args))
	for _, arg := range args {
		id, err := uuid.Parse(arg)
		if err != nil {
			return nil, fmt.Errorf("%q is not the id of an event; `%s list` shows ids", arg, s.program())
		}
		ids = append(ids, id)
	}
	return ids, nil
}
