package dlq

import (
	"testing"
	"time"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

func TestAFilterMatchesAllThatIsSet(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	now := at.Add(time.Hour)
	old := rabbitmq.DeadLetter{Message: rabbitmq.Message{ID: "A", RoutingKey: "order.created"}, Code: "malformed", FailedAt: at}
	timeless := rabbitmq.DeadLetter{Message: rabbitmq.Message{ID: "B"}, Code: "unknown"}
	for _, c := range []struct {
		filter        filter
		old, timeless bool
		text          string
	}{
		{filter{}, true, true, "--all"},
		{filter{ids: []string{"A", "C"}}, true, false, "--all"},
		{filter{code: "unknown"}, false, true, "--reason unknown"},
		{filter{key: "order.created"}, true, false, "--routing-key order.created"},
		{filter{age: time.Hour}, true, false, "--older-than 1h0m0s"},
		{filter{age: time.Hour + 1}, false, false, "--older-than 1h0m0.000000001s"},
		{filter{code: "malformed", key: "x"}, false, false, "--reason malformed --routing-key x"},
		{filter{code: "a b'\x00\xff\u202e"}, false, false, `--reason "a b'\x00\xff\u202e"`},
	} {
		if c.filter.matches(old, now) != c.old || c.filter.matches(timeless, now) != c.timeless {
			t.Errorf("%s matches old: %t, timeless: %t", c.filter, c.filter.matches(old, now), c.filter.matches(timeless, now))
		}
		if c.filter.String() != c.text || c.filter.empty() != (c.text == "--all" && c.filter.ids == nil) {
			t.Errorf("it says %s, empty: %t, want %s", c.filter, c.filter.empty(), c.text)
		}
	}
}
