package outbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// Event is what happened, and where to send it.
type Event struct {
	// Topic says where the event goes: RabbitMQ's routing key, Kafka's topic, a recipient's domain.
	// It is required: UTF-8 text of 1 to 255 bytes, and not "*". If the destination does not take
	// the events of a topic, the topic pauses, and the others go on.
	Topic string

	// Destination replaces the publisher's own for this event, for example an exchange of RabbitMQ.
	// It is UTF-8 text of up to 255 bytes; "" is the publisher's own. Its topics pause apart from
	// others, under the name destination/topic; what has the same name pauses together. If its
	// exchange does not exist, they pause until it does. A publisher of your own gets it as
	// [publish.Message.Destination], and has to use it.
	Destination string

	// Aggregate and AggregateID say what the event is about, for example "order" and the order's
	// id. Both are UTF-8 text of up to 255 bytes. The events of one aggregate are delivered one
	// after the other. If both are "", the event has no order. The message does not have them, nor
	// the Version: put what the consumer needs into the Payload or the Headers.
	Aggregate, AggregateID string

	// Version is the event's place among the events of its aggregate, from 1. It is required with
	// an aggregate, and must be 0 without one. See [Append] for how to make it.
	Version int

	// Payload is stored and delivered byte for byte: JSON, Protobuf, anything. It may be empty, but
	// not nil, and has at most 256 KiB.
	Payload []byte

	// ContentType describes the payload, in up to 255 bytes. "" is application/json.
	ContentType string

	// Headers are delivered with the payload. A name has 1 to 255 bytes; all of them together have
	// at most 60 KiB as JSON. That is also what AMQP takes, with room for the headers that this
	// library adds. [publish.Reserved] has the names that mean something else. traceparent is one:
	// see the next field.
	Headers map[string]string

	// Traceparent is the W3C trace context that the message continues, in up to 64 bytes. "" is
	// that of Append's context, with its tracestate. The message carries it, or that of the relay's
	// span, as a header.
	Traceparent string

	// Supersedes says that nobody needs the older events of the aggregate any more, when this one
	// is due. It waits only for one that a relay is sending already, and not for those that are
	// delayed, refused, paused or failed. These are not sent: they are superseded. One of them that
	// was sent, and had no answer, may still arrive later, if the destination was slow to read it.
	// It requires an aggregate.
	Supersedes bool

	// ID is the message's id: each delivery has the same. It may be any UUID. If it is zero,
	// Append makes one of version 7.
	ID uuid.UUID

	// Delay is how long the relay waits before it sends the event, by the database's clock. The
	// later events of its aggregate wait for it. It is at most 14 days: an inbox refuses messages
	// whose Append was more than 30 days ago, by default.
	Delay time.Duration
}

// The errors of [Append]. Test for them with [errors.Is].
var (
	// ErrInvalid means that an event breaks a rule of [Event]. The error names the event and the
	// field. Append returns it before it uses the transaction, so the transaction can go on and
	// commit. It is a bug in the program: the same event never succeeds.
	ErrInvalid = errors.New("outbox: invalid event")

	// ErrNoSchema means that the tables of the outbox are missing, or are older than this package.
	// Call [Migrate] when the program starts. If it was called, compare the search_path of both
	// connections. The transaction is broken; it succeeds after the migration.
	ErrNoSchema = errors.New("outbox: the tables are missing or old: run Migrate")

	// ErrDuplicate means that the outbox already has this ID, or this Version of the aggregate. The
	// error names it. The transaction is broken: roll it back. If it is the ID, the event was
	// probably appended before, and the answer to that commit was lost. If it is the Version, the
	// program did not lock the aggregate's row before it read the version: repeat the whole
	// transaction, with the lock.
	//
	// Append finds every duplicate of an event that is not done, or was done within the relay's
	// Retention.
	ErrDuplicate = errors.New("outbox: the event exists already")
)

// The limits of an event. Those of the columns are the same.
const (
	maxEvents  = 1000
	maxText    = 255
	maxPayload = 256 << 10
	maxHeaders = 60 << 10
	maxTrace   = 64
	maxDelay   = 14 * 24 * time.Hour

	defaultContentType = "application/json"
)

// check returns an error that names a field that breaks a rule.
func (e Event) check() error {
	for _, text := range []struct {
		field, value string
		least        int
	}{
		{"Topic", e.Topic, 1},
		{"Destination", e.Destination, 0},
		{"Aggregate", e.Aggregate, 0},
		{"AggregateID", e.AggregateID, 0},
		{"ContentType", e.ContentType, 0},
		{"Traceparent", e.Traceparent, 0},
	} {
		if err := checkText(text.field, text.value, text.least); err != nil {
			return err
		}
	}
	ordered := e.Aggregate != "" || e.AggregateID != ""
	switch {
	case e.Topic == store.AllTopics:
		return errors.New("Topic is *, which stands for all topics when they are paused")
	case ordered && e.Aggregate == "":
		return errors.New("Aggregate is empty, but AggregateID is set")
	case ordered && e.AggregateID == "":
		return errors.New("AggregateID is empty, but Aggregate is set")
	case ordered && (e.Version < 1 || e.Version > math.MaxInt32):
		return fmt.Errorf("Version is %d, but must be from 1 to %d", e.Version, math.MaxInt32)
	case !ordered && e.Version != 0:
		return fmt.Errorf("Version is %d, but Aggregate and AggregateID are empty", e.Version)
	case !ordered && e.Supersedes:
		return errors.New("Supersedes is set, but Aggregate and AggregateID are empty")
	case e.Payload == nil:
		return errors.New("Payload is nil: an empty payload is []byte{}")
	case len(e.Payload) > maxPayload:
		return fmt.Errorf("Payload has %d bytes, more than %d", len(e.Payload), maxPayload)
	case len(e.Traceparent) > maxTrace:
		return fmt.Errorf("Traceparent has %d bytes, more than %d", len(e.Traceparent), maxTrace)
	case e.Delay < 0:
		return fmt.Errorf("Delay is negative: %s", e.Delay)
	case e.Delay > maxDelay:
		return fmt.Errorf("Delay is %s, more than %s", e.Delay, maxDelay)
	}
	return e.checkHeaders()
}

func (e Event) checkHeaders() error {
	if len(e.Headers) == 0 {
		return nil
	}
	for name, value := range e.Headers {
		if err := checkText("a name in Headers", name, 1); err != nil {
			return err
		}
		if err := checkText("Headers["+name+"]", value, -1); err != nil {
			return err
		}
		if why := publish.Reserved(name); why != "" {
			return fmt.Errorf("Headers[%s] is not allowed: %s", name, why)
		}
	}
	text, err := json.Marshal(e.Headers)
	if err != nil || len(text) > maxHeaders {
		return fmt.Errorf("Headers have %d bytes as JSON, more than %d", len(text), maxHeaders)
	}
	return nil
}

// checkText accepts what a column of type text stores: UTF-8 without NUL. A least length of -1
// stands for any length.
func checkText(field, text string, least int) error {
	switch {
	case least >= 0 && len(text) < least:
		return fmt.Errorf("%s is empty", field)
	case least >= 0 && len(text) > maxText:
		return fmt.Errorf("%s has %d bytes, more than %d", field, len(text), maxText)
	case strings.IndexByte(text, 0) >= 0:
		return fmt.Errorf("%s has a NUL character", field)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s is not UTF-8", field)
	}
	return nil
}

// checkAll names the event by its index.
func checkAll(events []Event) error {
	if len(events) > maxEvents {
		return fmt.Errorf("%w: %d events, more than %d in one call", ErrInvalid, len(events), maxEvents)
	}
	for i, e := range events {
		if err := e.check(); err != nil {
			return fmt.Errorf("%w: event %d: %w", ErrInvalid, i, err)
		}
	}
	return nil
}
