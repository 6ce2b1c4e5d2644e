package publisher

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/outbox/publish"
)

// The codes of errors that each repeat of the message would get again.
// https://github.com/nats-io/nats-server/blob/v2.15.2/server/errors.json
const (
	exceedsMaxMessageSize = 10054 // the stream's max_msg_size
	exceedsMaxHeaderSize  = 10097
)

var (
	errNoStream = errors.New("no stream has its subject")
	errRefused  = errors.New("the stream refused it")
)

// result returns the outcome for an error of the server or of the client library.
func result(err error) publish.Result {
	var answered *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return publish.Result{Outcome: publish.Returned, Err: errNoStream}
	case !errors.As(err, &answered):
		return publish.Result{Outcome: publish.Unknown, Err: err}
	case answered.ErrorCode == exceedsMaxMessageSize:
		return publish.Result{Outcome: publish.Invalid, Err: fmt.Errorf("%w: %w", publish.ErrTooLarge, answered)}
	case answered.ErrorCode == exceedsMaxHeaderSize:
		return publish.Result{Outcome: publish.Invalid, Err: fmt.Errorf("%w: %w", publish.ErrBadHeaders, answered)}
	default:
		return publish.Result{Outcome: publish.Refused, Err: fmt.Errorf("%w: %w", errRefused, answered)}
	}
}
