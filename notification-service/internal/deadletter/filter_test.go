package deadletter_test

import (
	"iter"
	"maps"
	"testing"
	"time"

	"example.com/transactional-outbox/notification-service/internal/deadletter"
)

func values(m map[string]int) iter.Seq[int] { return maps.Values(m) }

func TestAFilterMatchesAllThatIsSet(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	hour := time.Hour.Seconds()
	old := deadletter.DeadLetter{ID: "A", Code: "malformed", RoutingKey: "order.created", FailedAt: &now, Age: &hour}
	timeless := deadletter.DeadLetter{ID: "B", Code: "unknown"}
	for _, c := range []struct {
		filter        deadletter.Filter
		old, timeless bool
		text          string
	}{
		{deadletter.Filter{}, true, true, "--all"},
		{deadletter.Filter{IDs: []string{"A", "C"}}, true, false, "A C"},
		{deadletter.Filter{Reason: "unknown"}, false, true, "--reason unknown"},
		{deadletter.Filter{RoutingKey: "order.created"}, true, false, "--routing-key order.created"},
		{deadletter.Filter{OlderThan: time.Hour}, true, false, "--older-than 1h0m0s"},
		{deadletter.Filter{OlderThan: time.Hour + 1}, false, false, "--older-than 1h0m0.000000001s"},
		{deadletter.Filter{Since: now}, true, false, "--since 2026-01-31T08:00:00Z"},
		{deadletter.Filter{Since: now.Add(1)}, false, false, "--since 2026-01-31T08:00:00.000000001Z"},
		{deadletter.Filter{Until: now.Add(1)}, true, false, "--until 2026-01-31T08:00:00.000000001Z"},
		{deadletter.Filter{Until: now}, false, false, "--until 2026-01-31T08:00:00Z"},
		{deadletter.Filter{Reason: "malformed", RoutingKey: "x"}, false, false, "--reason malformed --routing-key x"},
		{deadletter.Filter{Reason: "a b'\x00\xff\u202e"}, false, false, `--reason "a b'\x00\xff\u202e"`},
	} {
		if c.filter.Matches(old) != c.old || c.filter.Matches(timeless) != c.timeless {
			t.Errorf("%s matches old: %t, timeless: %t", c.filter, c.filter.Matches(old), c.filter.Matches(timeless))
		}
		if c.filter.String() != c.text || c.filter.Empty() != (c.text == "--all") {
			t.Errorf("it says %s, empty: %t, want %s", c.filter, c.filter.Empty(), c.text)
		}
	}
}

func TestGroupsHaveTheLargestFirst(t *testing.T) {
	t.Parallel()
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	groups := deadletter.Groups([]deadletter.DeadLetter{
		{Code: "panicked", Reason: "r", FailedAt: &late},
		{Code: "malformed", Reason: "a", FailedAt: &late},
		{Code: "malformed", Reason: "b", FailedAt: &early},
		{Code: "malformed", Reason: "b"},
		{Code: "unknown"},
	})
	if len(groups) != 3 || groups[0].Code != "malformed" || groups[1].Code != "panicked" || groups[2].Code != "unknown" {
		t.Fatalf("%+v", groups)
	}
	if g := groups[0]; g.Count != 3 || g.Reason != "b" || g.Reasons != 2 || !g.Oldest.Equal(early) || !g.Newest.Equal(late) {
		t.Errorf("%+v", g)
	}
	if g := groups[2]; g.Count != 1 || g.Reason != "" || g.Oldest != nil {
		t.Errorf("%+v", g)
	}
}
