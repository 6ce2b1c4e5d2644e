package publisher

import (
	"errors"
	"strings"
	"testing"

	"example.com/transactional-outbox/outbox/publish"
)

func TestSubjectsAreForEachOrder(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]publish.Message{
		"events.order.created.1": {Destination: "events", Topic: "order.created", Group: "1"},
		"events.1":               {Destination: "events", Group: "1"},
		"events":                 {Destination: "events"},
	} {
		if got, err := subjectOf(m); got != want || err != nil {
			t.Errorf("the subject is %q (%v), want %q", got, err, want)
		}
	}
}

func TestWhatNATSWouldChangeIsInvalid(t *testing.T) {
	t.Parallel()
	headers := func(name string, value any) publish.Message {
		return publish.Message{Destination: "d", Headers: map[string]any{name: value}}
	}
	for name, c := range map[string]struct {
		message publish.Message
		reason  error
	}{
		"an empty token":       {publish.Message{Destination: "d", Topic: "a..b"}, publish.ErrBadTopic},
		"a wildcard":           {publish.Message{Destination: "d", Topic: "a.*"}, publish.ErrBadTopic},
		"all that follows":     {publish.Message{Destination: "d", Topic: ">"}, publish.ErrBadTopic},
		"a space":              {publish.Message{Destination: "d", Topic: "a b"}, publish.ErrBadTopic},
		"a line end":           {publish.Message{Destination: "d", Topic: "a\r\nPUB b 0"}, publish.ErrBadTopic},
		"no UTF-8":             {publish.Message{Destination: "d", Topic: "\xff"}, publish.ErrBadTopic},
		"a dot in the group":   {publish.Message{Destination: "d", Group: "1.2"}, publish.ErrBadTopic},
		"a long key":           {publish.Message{Destination: "d", Topic: strings.Repeat("k", maxSubject)}, publish.ErrBadTopic},
		"no destination":       {publish.Message{Topic: "k"}, publish.ErrBadTopic},
		"a line end in header": {headers("a", "b\nc"), publish.ErrBadHeaders},
		"spaces around":        {headers("a", " b"), publish.ErrBadHeaders},
		"a colon in the name":  {headers("a:b", ""), publish.ErrBadHeaders},
		"no name":              {headers("", "b"), publish.ErrBadHeaders},
		"a property's name":    {headers(KeyHeader, "b"), publish.ErrBadHeaders},
		"an instruction":       {headers("Nats-Rollup", "all"), publish.ErrBadHeaders},
		"a list":               {headers("a", []string{"b"}), publish.ErrBadHeaders},
		"64 KiB of headers":    {headers("a", strings.Repeat("b", 64<<10)), publish.ErrBadHeaders},
		"more than max_payload": {
			publish.Message{Destination: "d", Body: make([]byte, 1<<20)}, publish.ErrTooLarge,
		},
		"an id with a line end": {publish.Message{ID: "1\r\n2", Destination: "d"}, publish.ErrBadHeaders},
	} {
		if _, err := convert(c.message, 1<<20); !errors.Is(err, c.reason) || !errors.Is(err, publish.ErrInvalid) {
			t.Errorf("%s: the error is %v, want %v", name, err, c.reason)
		}
	}
}
