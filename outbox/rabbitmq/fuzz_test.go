package rabbitmq

import (
	"maps"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// FuzzCopy copies any delivered message. The copy must have no header that the broker acts upon, and
// all others. The original must not change, and check must not panic.
func FuzzCopy(f *testing.F) {
	f.Add("x-death", "value", "order.created", []byte("{}"))
	f.Add("CC", "order.confirmed", "", []byte(nil))
	f.Add("retry-count", "1", strings.Repeat("k", 300), []byte("\xff"))
	f.Fuzz(func(t *testing.T, name, value, key string, body []byte) {
		headers := amqp.Table{name: value, "nested": amqp.Table{name: []any{value}}, "x-tenant": value, "BCC": value}
		original := messageOf(amqp.Delivery{Headers: maps.Clone(headers), RoutingKey: key, Body: body})
		m := original.Copy()
		_ = m.check()
		_ = m.HeaderValues()
		_, _ = original.Death()
		for _, lost := range []string{"x-death", "x-first-death-queue", "x-last-death-queue", "x-delivery-count", "CC", "BCC"} {
			delete(headers, lost)
			if _, there := m.Headers[lost]; there {
				t.Errorf("the copy carries %q", lost)
			}
		}
		for kept := range headers {
			if _, there := m.Headers[kept]; !there && !ofBroker(kept) {
				t.Errorf("the copy has lost %q", kept)
			}
		}
		if m.Headers["original-bcc"] != value || m.RoutingKey != key || string(m.Body) != string(body) {
			t.Error("the copy is another message")
		}
	})
}

// TestACopyWithTooManyHeadersHasNoReason: what the sender has set is worth more.
func TestACopyWithTooManyHeadersHasNoReason(t *testing.T) {
	t.Parallel()
	senders := map[string]any{"h": strings.Repeat("v", 64<<10-400)}
	for reason, kept := range map[string]bool{strings.Repeat("r", 100): true, strings.Repeat("r", 512): false} {
		m := &message{Delivery: Delivery{Message: Message{Headers: senders}}}
		moved := m.copyTo("dlx", map[string]any{FailureReasonHeader: reason, RetryCountHeader: int64(1)}).Headers
		if _, has := moved[FailureReasonHeader]; has != kept || moved["h"] != senders["h"] || moved[RetryCountHeader] != int64(1) {
			t.Errorf("of %d bytes: kept %t, want %t; %d headers", len(reason), has, kept, len(moved))
		}
	}
}

func TestP3AMessageOutlivesARestartOfTheBroker(t *testing.T) {
	t.Parallel()
	if mode := (Message{}).publishing().DeliveryMode; mode != amqp.Persistent {
		t.Errorf("delivery mode %d", mode)
	}
}
