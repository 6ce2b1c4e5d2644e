package rabbitmq

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// FuzzCopy copies any delivered message. The copy must have no header that the broker acts upon.
// The original must not change, and check must not panic.
func FuzzCopy(f *testing.F) {
	f.Add("x-death", "value", "order.created", []byte("{}"))
	f.Add("CC", "order.confirmed", "", []byte(nil))
	f.Add("retry-count", "1", strings.Repeat("k", 300), []byte("\xff"))
	f.Fuzz(func(t *testing.T, name, value, key string, body []byte) {
		headers := amqp.Table{name: value, "nested": amqp.Table{name: []any{value}}, "x-queue": value, "BCC": value}
		original := messageOf(amqp.Delivery{Headers: headers, RoutingKey: key, Body: body})
		m := original.Copy()
		_ = m.check()
		_ = m.HeaderValues()
		_, _ = original.Death()
		for kept := range m.Headers {
			if strings.HasPrefix(kept, "x-") || kept == "CC" || kept == "BCC" {
				t.Errorf("the copy carries %q", kept)
			}
		}
		if _, there := original.Headers["x-queue"]; !there || m.RoutingKey != key || string(m.Body) != string(body) {
			t.Error("the original was changed, or the copy is another message")
		}
	})
}
