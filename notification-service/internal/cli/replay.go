package cli

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/consumer"
)

var replay = command{
	Name: "replay", Arguments: "ID… | --reason CODE | --routing-key KEY | --older-than TIME | --all [flags]",
	Does: "send messages to the consumer again",
	More: `Sends messages to the consumer's queue again, each with the same id and with all its
retries. It removes a message from the dead letters after the broker has confirmed the
copy. A message that is sent twice does no harm, because the consumer knows the ids
that it has had.

It knows them for INBOX_RETENTION. An older message may be a duplicate, so this command
skips messages with the code outside-dedupe-window. With --force it sends them too, and
a customer may get an e-mail twice. For example:

  ` + program + ` replay 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57
  ` + program + ` replay --reason retries-exhausted --older-than 1h --dry-run

` + concurrencyNote,
	Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
		force := flags.Bool("force", false, "also send messages that may have had their effect")
		return defineChange(flags, change{
			verb: "replay", past: "replayed",
			begin: func(deps Dependencies, s Session) (apply, error) {
				publisher, err := s.NewPublisher(1)
				return replayer{deps, s, publisher, *force}.replay, err
			},
			refuse: func(l DeadLetter) string {
				if l.Code != consumer.OutsideDedupeWindow || *force {
					return ""
				}
				return "is older than INBOX_RETENTION, so it may have had its effect; --force sends it nevertheless"
			},
		})
	},
}

// confirmTimeout is how long the broker may take to confirm a copy.
const confirmTimeout = 30 * time.Second

// replayer makes one copy at a time. If the broker does not confirm a copy, the replay stops, and
// the messages after it stay unchanged.
type replayer struct {
	Dependencies
	session   Session
	publisher Publisher
	force     bool
}

func (r replayer) replay(ctx context.Context, f found) (refusal string, err error) {
	if err := r.session.Unblocked(ctx); err != nil {
		return "", err
	}
	result := r.publisher.Publish([]rabbitmq.Message{r.copy(f.Message)}, confirmTimeout)[0]
	switch result.Outcome {
	case rabbitmq.Confirmed:
	case rabbitmq.Invalid:
		return "cannot be sent: " + result.Err.Error(), nil
	default:
		return "", fmt.Errorf("%s (%s) was not taken by %s: %w; %s", f.ID, f.RoutingKey, r.Requeue, result.Err, cli.Advice(result.Outcome))
	}
	if err := f.Remove(); err != nil {
		return "", fmt.Errorf("%s was sent and is still here: %w", f.ID, err)
	}
	slog.InfoContext(ctx, "dead letter replayed", "message_id", f.ID, "routing_key", f.RoutingKey,
		"failure_code", f.Code, "failure_reason", f.Reason, "size", f.Size, "forced", r.force, "by", r.By)
	return "", nil
}

// copy returns the message as it was before it failed.
func (r replayer) copy(m rabbitmq.Message) rabbitmq.Message {
	m = m.Copy()
	m.Exchange = r.Requeue
	for _, header := range []string{
		consumer.RetryCountHeader, consumer.ElsewhereCountHeader, consumer.DeferredCountHeader,
		consumer.FailureCodeHeader, consumer.FailureReasonHeader, consumer.FailedAtHeader, consumer.ForcedHeader,
	} {
		delete(m.Headers, header)
	}
	m.Headers[consumer.ReplayedHeader] = true
	if r.force {
		m.Headers[consumer.ForcedHeader] = true
	}
	return m
}
