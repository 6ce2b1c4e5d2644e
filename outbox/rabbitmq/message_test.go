package rabbitmq_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"example.com/transactional-outbox/outbox/internal/brokertest"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// SEED chooses what the random tests do.
func init() { _ = flag.Set("rapid.seed", cmp.Or(os.Getenv("SEED"), "1")) }

func TestCheck(t *testing.T) {
	t.Parallel()
	key := func(n int) rabbitmq.Message { return rabbitmq.Message{RoutingKey: strings.Repeat("k", n)} }
	body := func(n int) rabbitmq.Message { return rabbitmq.Message{Body: make([]byte, n)} }
	headers := func(h map[string]any) rabbitmq.Message { return rabbitmq.Message{Headers: h} }
	long := strings.Repeat("n", 256)
	for what, c := range map[string]struct {
		message rabbitmq.Message
		want    error
	}{
		"nothing":             {rabbitmq.Message{}, nil},
		"largest body":        {body(rabbitmq.MaxBody), nil},
		"larger body":         {body(rabbitmq.MaxBody + 1), publish.ErrTooLarge},
		"longest key":         {key(255), nil},
		"longer key":          {key(256), publish.ErrBadTopic},
		"key of wide letters": {rabbitmq.Message{RoutingKey: strings.Repeat("é", 128)}, publish.ErrBadTopic},
		"long id":             {rabbitmq.Message{ID: long}, publish.ErrBadHeaders},
		"long type":           {rabbitmq.Message{Type: long}, publish.ErrBadHeaders},
		"long content type":   {rabbitmq.Message{ContentType: long}, publish.ErrBadHeaders},
		"long app id":         {rabbitmq.Message{AppID: long}, publish.ErrBadHeaders},
		"long exchange":       {rabbitmq.Message{Exchange: long}, publish.ErrBadHeaders},
		"every type of AMQP": {headers(map[string]any{
			"string": "s", "bytes": []byte("b"), "int": 1, "int64": int64(1), "float": 1.5, "bool": true, "nil": nil,
			"time": time.Unix(1, 0), "array": []any{"a", 1}, "table": amqp.Table{"t": "t"},
		}), nil},
		"no type of AMQP":      {headers(map[string]any{"h": struct{}{}}), publish.ErrBadHeaders},
		"such a type, nested":  {headers(map[string]any{"h": []any{amqp.Table{"t": uint64(1)}}}), publish.ErrBadHeaders},
		"much in one header":   {headers(map[string]any{"h": strings.Repeat("v", 64<<10)}), publish.ErrBadHeaders},
		"almost as much":       {headers(map[string]any{"h": strings.Repeat("v", 64<<10-12)}), nil},
		"many short texts":     {headers(texts(60 << 10 / 14)), nil},
		"much of small things": {headers(map[string]any{"h": make([]any, 140<<10)}), publish.ErrBadHeaders},
		"many numbers":         {headers(map[string]any{"h": slices.Repeat([]any{int64(1)}, 20<<10)}), publish.ErrBadHeaders},
		"CC as text":           {headers(map[string]any{"CC": "order.created"}), publish.ErrBadHeaders},
		"BCC as nothing":       {headers(map[string]any{"BCC": nil}), publish.ErrBadHeaders},
		"CC as a list":         {headers(map[string]any{"CC": []any{"order.created"}}), nil},
		"long name":            {headers(map[string]any{long: "v"}), publish.ErrBadHeaders},
		"long name, nested":    {headers(map[string]any{"h": []any{amqp.Table{long: "v"}}}), publish.ErrBadHeaders},
	} {
		if err := c.message.Check(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}

// texts returns headers of 14 bytes each.
func texts(n int) map[string]any {
	texts := map[string]any{}
	for i := range n {
		texts[fmt.Sprintf("%04d", i)] = "text"
	}
	return texts
}

// TestTheHeadersOfCopiesAreReserved: a sender's would be overwritten, or taken for the consumer's.
// Those of the broker are not in a copy. Others that begin as these do are.
func TestTheHeadersOfCopiesAreReserved(t *testing.T) {
	t.Parallel()
	for _, header := range []string{
		rabbitmq.RetryCountHeader, rabbitmq.FirstFailedAtHeader, rabbitmq.FailureCodeHeader,
		rabbitmq.FailureReasonHeader, rabbitmq.FailedAtHeader, rabbitmq.OriginalExchangeHeader, "x-unreadable",
	} {
		if publish.Reserved(header) == "" {
			t.Errorf("%s is not", header)
		}
	}
	for header, dropped := range map[string]bool{
		"x-death": true, "x-delivery-count": true, "x-acquired-count": true,
		"x-first-death-exchange": true, "x-first-death-queue": true, "x-first-death-reason": true,
		"x-last-death-exchange": true, "x-last-death-queue": true, "x-last-death-reason": true,
		"x-death-note": false, "x-delivery-counter": false, "X-Death": false, "x-first-death-": false,
	} {
		_, kept := rabbitmq.Message{Headers: map[string]any{header: "v"}}.Copy().Headers[header]
		if reserved := publish.Reserved(header) != ""; kept == dropped || reserved != dropped {
			t.Errorf("%s: in a copy %t, reserved %t", header, kept, reserved)
		}
	}
}

// TestATimestampMayBeInAnyUnit, and none is zero.
func TestATimestampMayBeInAnyUnit(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for written, want := range map[int64]time.Time{
		at.Unix(): at, at.UnixMilli(): at, at.UnixMicro(): at, at.UnixNano(): at, math.MaxInt64: time.Unix(0, math.MaxInt64),
		0: {}, -1: {}, math.MinInt64: {}, 1: time.Unix(1, 0),
	} {
		if got := (rabbitmq.Message{Timestamp: time.Unix(written, 0)}).PublishedAt(); !got.Equal(want) {
			t.Errorf("%d: %v, want %v", written, got, want)
		}
	}
	if got := (rabbitmq.Message{}).PublishedAt(); !got.IsZero() {
		t.Errorf("none: %v", got)
	}
}

// The broker must accept every message that check accepts. Otherwise one message would close the
// connection of all others.
func TestTheBrokerAcceptsWhatCheckAccepts(t *testing.T) {
	t.Parallel()
	s := openSession(t)
	p, err := s.NewPublisher(1)
	must(t, err)
	exchange := brokertest.Exchange(t)
	rapid.Check(t, func(t *rapid.T) {
		m := anyMessage(exchange).Draw(t, "message")
		sendable := m.Check() == nil
		if r := publish.All(p, []rabbitmq.Message{m}, limit)[0]; sendable && r.Outcome != publish.Returned {
			t.Fatalf("outcome %d: %v", r.Outcome, r.Err)
		}
	})
}

// anyMessage generates messages near the limits.
func anyMessage(exchange string) *rapid.Generator[rabbitmq.Message] {
	short := rapid.Custom(func(t *rapid.T) string {
		return strings.Repeat("s", rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(250, 260)).Draw(t, "length"))
	})
	header := rapid.Deferred(func() *rapid.Generator[any] {
		value := rapid.OneOf(
			rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](int64(7)), rapid.Just[any](1.5), rapid.Just[any](time.Unix(7, 0)),
			rapid.Map(short, func(s string) any { return s }), rapid.Map(short, func(s string) any { return amqp.Table{s: s} }),
		)
		return rapid.Custom(func(t *rapid.T) any {
			v, n := value.Draw(t, "value"), rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(10<<10, 20<<10)).Draw(t, "repeated")
			if n == 0 {
				return v
			}
			repeated := make([]any, n)
			for i := range repeated {
				repeated[i] = v
			}
			return repeated
		})
	})
	name := rapid.OneOf(short, rapid.SampledFrom([]string{"CC", "BCC"}))
	return rapid.Custom(func(t *rapid.T) rabbitmq.Message {
		return rabbitmq.Message{
			Exchange: exchange, ID: short.Draw(t, "id"), Type: short.Draw(t, "type"), RoutingKey: short.Draw(t, "key"),
			ContentType: short.Draw(t, "content type"), AppID: short.Draw(t, "app id"),
			Headers: rapid.MapOfN(name, header, 0, 3).Draw(t, "headers"),
		}
	})
}
