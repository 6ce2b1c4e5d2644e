package cli_test

import (
	"strings"
	"testing"

	dlqcli "example.com/transactional-outbox/notification-service/internal/cli"
)

// TestDeeplyNestedJSONDoesNotGrow: each level would be indented further than the one before.
func TestDeeplyNestedJSONDoesNotGrow(t *testing.T) {
	t.Parallel()
	for levels, lines := range map[int]int{100: 199, 1000: 1999, 9000: 1} {
		text := dlqcli.BodyText(strings.Repeat("[", levels) + strings.Repeat("]", levels))
		if n := strings.Count(text, "\n") + 1; n != lines {
			t.Errorf("%d levels are %d lines, want %d", levels, n, lines)
		}
	}
}

// TestIndentedJSONIsBounded: each value is a line, which begins with the depth of its nesting.
func TestIndentedJSONIsBounded(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("[", 90) + strings.Repeat("1,", 500_000) + "1" + strings.Repeat("]", 90)
	if n := len(dlqcli.BodyText(body)); n > 10<<20 {
		t.Errorf("%d bytes are shown as %d", len(body), n)
	}
}
