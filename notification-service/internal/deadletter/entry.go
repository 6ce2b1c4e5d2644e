package deadletter

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

// About is what a dead letter is about, as far as its publisher has said it.
type About struct {
	OrderID string `json:"-"` // a UUID, or "" if it is unknown
	TraceID string `json:"-"` // "" if it is unknown
}

// Entry is a dead letter with what it is about.
type Entry struct {
	DeadLetter
	About
}

// maxParsed bounds the work for one body. The event of an order has less than a KiB.
const maxParsed = 64 << 10

func entryOf(f Found) Entry {
	return Entry{f.DeadLetter, aboutOf(f.Message)}
}

func aboutOf(m rabbitmq.Message) About { return About{orderOf(m.Body), traceOf(m)} }

func orderOf(body []byte) string {
	var event struct {
		OrderID string `json:"order_id"`
	}
	if len(body) > maxParsed || json.Unmarshal(body, &event) != nil {
		return ""
	}
	id, err := uuid.Parse(event.OrderID)
	if err != nil || id == uuid.Nil {
		return ""
	}
	return id.String()
}

// traceparent is the header of W3C Trace Context: version, trace, span, flags.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}`)

func traceOf(m rabbitmq.Message) string {
	if found := traceparent.FindStringSubmatch(text(m, "traceparent")); found != nil {
		return strings.Clone(found[1]) // a part of the header would keep all of it in memory
	}
	return ""
}
