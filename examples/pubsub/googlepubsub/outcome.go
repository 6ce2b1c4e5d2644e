package googlepubsub

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/transactional-outbox/outbox/publish"
)

// refusals are the answers after which Pub/Sub has certainly not stored the message. They are about
// the message, its topic, a right or a quota.
//
// InvalidArgument becomes Refused, not Invalid. The publisher has checked the limits before it sent
// the message. So the reason is another one, for example the schema of the topic, which may change.
var refusals = map[codes.Code]bool{
	codes.InvalidArgument: true, codes.PermissionDenied: true,
	codes.ResourceExhausted: true, codes.FailedPrecondition: true,
}

// maxReason keeps a reason short: the outbox keeps it with the event.
const maxReason = 500

// result returns the outcome of a request. After any other error, such as Internal or Aborted,
// Pub/Sub may have stored the messages.
func result(err error) publish.Result {
	code := status.Code(err)
	switch {
	case err == nil:
		return publish.Result{Outcome: publish.Confirmed}
	case errors.Is(err, context.DeadlineExceeded), code == codes.DeadlineExceeded:
		return publish.Result{Outcome: publish.Unknown, Err: publish.ErrTimeout}
	case code == codes.NotFound:
		return publish.Result{Outcome: publish.Returned, Err: reason(err)}
	case refusals[code]:
		return publish.Result{Outcome: publish.Refused, Err: reason(err)}
	}
	return publish.Result{Outcome: publish.Unknown, Err: reason(err)}
}

func reason(err error) error {
	return fmt.Errorf("%s: %.*s", status.Code(err), maxReason, status.Convert(err).Message())
}
