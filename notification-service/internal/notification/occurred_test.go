package notification

import (
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/rabbitmq"
)

// TestParseRefusesATimeThatPostgreSQLRefuses: RFC 3339 has offsets of up to 23:59, and a year
// 0. PostgreSQL has neither, and the e-mail would be sent before it says so.
func TestParseRefusesATimeThatPostgreSQLRefuses(t *testing.T) {
	t.Parallel()
	const good = `{"order_id":"0199a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b","order_version":1,"product_id":"a","quantity":1,"amount":1,"currency":"GBP","occurred_at":"TIME"}`
	for time, taken := range map[string]bool{
		"2026-01-02T03:04:05Z":      true,
		"2026-01-02T03:04:05+14:00": true,
		"2026-01-02T03:04:05-12:00": true,
		"2026-01-02T03:04:05+15:59": true,
		"2026-01-02T03:04:05+16:00": false,
		"2026-01-02T03:04:05-16:00": false,
		"2026-01-02T03:04:05+23:59": false,
		"0000-12-31T03:04:05Z":      false,
	} {
		body := strings.Replace(good, "TIME", time, 1)
		if _, err := (*Service)(nil).Parse(rabbitmq.Message{Type: OrderCreated, Body: []byte(body)}); (err == nil) != taken {
			t.Errorf("%s: error %v, want taken: %t", time, err, taken)
		}
	}
}
