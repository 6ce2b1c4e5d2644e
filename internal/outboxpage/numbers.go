package outboxpage

import (
	"context"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/outbox/operate"
)

// countLimit bounds what one look at the overview costs. Larger numbers are estimates.
const countLimit = 10_000

// numbers counts for the overview.
type numbers struct {
	Pages
	committed, published page.Rate
}

// Numbers returns a function that counts for the overview. It returns the gates even if the
// database does not answer.
func (p Pages) Numbers() func(context.Context) (page.Numbers, error) {
	return (&numbers{Pages: p}).count
}

func (n *numbers) count(ctx context.Context) (page.Numbers, error) {
	result := page.Numbers{At: time.Now(), Gates: n.gates()}
	backlog, err := n.operator.Backlog(ctx, countLimit)
	if err != nil {
		result.Gates = append(result.Gates, "the page waits for the database")
		return result, err
	}
	totals, err := n.operator.Totals(ctx, countLimit)
	if err != nil {
		return result, err
	}
	result.Nodes = n.nodes(backlog, totals, result.At)
	return result, nil
}

func (n *numbers) gates() []string {
	if !n.Relay {
		return nil
	}
	waits := n.WaitsFor()
	for i, what := range waits {
		waits[i] = "the relay waits for " + what
	}
	return slices.Clip(waits)
}

func (n *numbers) nodes(b operate.Backlog, t operate.Totals, now time.Time) []page.Node {
	waiting := int64(b.Pending)
	published := max(t.Appended-waiting-int64(b.InProgress+b.Failed)-t.Discarded, 0)
	node := func(name, label string, count int64) page.Node {
		return page.Node{
			Name: name, Label: label, Count: count, About: count >= countLimit,
			PerSecond: page.Unknown, OldestSeconds: page.Unknown,
		}
	}
	committed := node("committed", "committed", t.Appended)
	committed.About, committed.PerSecond, committed.Note = false, n.committed.PerSecond(t.Appended, now), string(n.Noun)+"s, since the beginning"

	pending := node("waiting", "waiting", waiting)
	if b.OldestDue > 0 {
		pending.OldestSeconds = b.OldestDue
	}
	pending.Level = levelOfAge(b.OldestDue)

	publishing := node("publishing", "being "+n.Published, int64(b.InProgress))
	publishing.Note = n.relayNote()
	if n.Relay && len(n.WaitsFor()) > 0 {
		publishing.Level = page.Warn
	}

	done := node("published", n.Published, published)
	// A transaction that was rolled back has used a number, too. Both totals count it.
	done.About, done.PerSecond, done.Note = false, n.published.PerSecond(published, now), "confirmed by "+n.Destination

	halted := node("halted", "topic is paused", int64(b.Halted))
	halted.Side, halted.Level, halted.Note = true, levelIf(b.PausedTopics > 0, page.Warn), "counted in waiting, too"
	if b.PausedTopics > 0 {
		halted.Note = cli.Noun("topic").Count(b.PausedTopics) + " paused; " + halted.Note
	}

	failed := node("failed", "failed", int64(b.Failed))
	failed.Side, failed.Level, failed.Path, failed.Note = true, levelIf(b.Failed > 0, page.Bad), "/failed", ""
	if b.Failed > 0 {
		failed.Note = "wait for an operator"
	}

	discarded := node("discarded", "discarded", t.Discarded)
	discarded.Side, discarded.Note = true, "by an operator"
	return []page.Node{committed, pending, publishing, done, halted, failed, discarded}
}

func (n *numbers) relayNote() string {
	switch {
	case !n.Relay:
		return "this process has no relay"
	case len(n.WaitsFor()) > 0:
		return "the relay waits"
	default:
		return "the relay works"
	}
}

// lateSeconds is when the oldest event is late. The alert waits longer.
const lateSeconds = 10

func levelOfAge(seconds float64) page.Level { return levelIf(seconds > lateSeconds, page.Warn) }

func levelIf(condition bool, level page.Level) page.Level {
	if condition {
		return level
	}
	return ""
}
