package deadletter_test

import (
	"strings"
	"testing"

	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// TestDeeplyNestedJSONDoesNotGrow: each level would be indented further than the one before.
func TestDeeplyNestedJSONDoesNotGrow(t *testing.T) {
	t.Parallel()
	for levels, lines := range map[int]int{100: 199, 1000: 1999, 9000: 1} {
		body := strings.Repeat("[", levels) + strings.Repeat("]", levels)
		detail := deadletter.DetailOf(deadletter.Found{BrowsedMessage: rabbitmq.BrowsedMessage{Message: rabbitmq.Message{Body: []byte(body)}}})
		if text := detail.BodyText(); detail.BodyEncoding != "json" || strings.Count(text, "\n")+1 != lines {
			t.Errorf("%d levels: %s of %d bytes in %d lines, want %d", levels, detail.BodyEncoding, len(text), strings.Count(text, "\n")+1, lines)
		}
	}
}
