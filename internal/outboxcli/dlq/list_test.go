package dlq_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestListShowsWhatTheConsumerDeadLettered(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	if out := b.must("list"); out != "There are no messages like that in "+b.Letters+".\n" {
		t.Errorf("of an empty queue it prints %q", out)
	}
	id := b.Add("malformed", 3*time.Hour, func(p *amqp.Publishing) {
		p.Headers["failure-reason"] = "red \x1b[31m and a long story: " + strings.Repeat("x", 100)
	})
	lines := strings.Split(strings.TrimSpace(b.must("list")), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for _, want := range []string{id, "order.created", "malformed", "Z  3h0m", "3 ", "15 ", "red  [31m", "xxx…"} {
		if !strings.Contains(lines[1], want) {
			t.Errorf("no %q in %q", want, lines[1])
		}
	}
	if strings.Index(lines[0], "CODE") != strings.Index(lines[1], "malformed") {
		t.Errorf("not aligned:\n%s", strings.Join(lines, "\n"))
	}
}

// TestListShowsWhatTheBrokerHasMoved: it leaves no reason, and may leave the headers
// of the retries before.
func TestListShowsWhatTheBrokerHasMoved(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	for _, id := range []string{"killer", "unsendable"} {
		b.Publish(b.Requeue, amqp.Publishing{MessageId: id, Type: "order.created", Headers: amqp.Table{
			"failure-reason": "an older one", "failed-at": time.Now().Add(-time.Hour).Format(time.RFC3339), "retry-count": int64(1),
		}})
	}
	for _, d := range b.Hold(b.Service, 2) {
		b.Check(d.Nack(false, d.MessageId == "killer"))
	}
	for _, d := range b.Hold(b.Service, 1) {
		b.Check(d.Nack(false, true)) // one more than the queue's limit
	}
	b.Drain(b.Service, 0)
	b.Await(b.Letters, 2)
	out := b.must("list")
	for id, want := range map[string]string{"killer": "delivery-limit", "unsendable": "rejected"} {
		line, found := lineWith(out, id)
		words := strings.Fields(line)
		if !found || words[2] != want || !strings.HasSuffix(words[4], "s") || words[5] != "1" || strings.Contains(line, "older") {
			t.Errorf("%s is shown as %q, want %s, some seconds ago, after 1 retry", id, line, want)
		}
	}
	if got := b.ids(b.must("list", "--json", "--reason", "rejected")); !slices.Equal(got, []string{"unsendable"}) {
		t.Errorf("rejected are %v", got)
	}
}

func lineWith(text, word string) (line string, found bool) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return line, true
		}
	}
	return "", false
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	key := func(p *amqp.Publishing) { p.Type = "order.cancelled" }
	ids := []string{b.Add("malformed", 2*time.Hour), b.Add("retries-exhausted", 0), b.Add("malformed", 0, key)}
	ids = append(ids, b.Add("", 0, func(p *amqp.Publishing) { p.Headers = nil }))
	for line, want := range map[string][]int{
		"":                              {0, 1, 2, 3},
		"--older-than 1h":               {0},
		"--reason malformed":            {0, 2},
		"--routing-key order.cancelled": {2},
		"--reason malformed --routing-key order.created": {0},
		"--reason unknown": {3},
		"--reason none":    {},
		"--limit 2":        {0, 1},
		"--limit 4":        {0, 1, 2, 3},
	} {
		out, progress, err := b.run(append([]string{"list", "--json"}, strings.Fields(line)...)...)
		got := b.ids(out)
		if line == "--limit 2" {
			if len(got) != 2 || !strings.Contains(progress, "there are more") {
				t.Errorf("with a limit of 2, it prints %v and %q", got, progress)
			}
			continue // a command that stops before the end of the queue may change its order
		}
		chosen := []string{}
		for _, i := range want {
			chosen = append(chosen, ids[i])
		}
		if err != nil || !sameSet(got, chosen) || progress != "" {
			t.Errorf("%s: %v and %q, error %v, want %v", line, got, progress, err, chosen)
		}
	}
}

// TestReadingKeepsTheQueue also in its order, for more messages than an Erlang
// map keeps in order.
func TestReadingKeepsTheQueue(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := b.AddMany(100)
	for _, line := range []string{"list", "show " + ids[7], "replay --all --dry-run", "discard --all --dry-run", "list --reason none"} {
		b.must(strings.Fields(line)...)
		if got := b.ids(b.must("list", "--json")); !slices.Equal(got, ids) {
			t.Fatalf("after %s there are\n%v, want\n%v", line, got, ids)
		}
	}
	left, sent := b.Contents(100, 0)
	if !slices.Equal(left, ids) || len(sent) != 0 {
		t.Errorf("left are %v, and sent %v", left, sent)
	}
}

func TestALongCommandShowsItsProgress(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.AddMany(1001)
	out, progress, err := b.run("list", "--reason", "none")
	want := "500 of 1001 messages (49%)\n1000 of 1001 messages (99%)\n1001 of 1001 messages (100%)\n"
	if err != nil || progress != want {
		t.Errorf("it prints %q and the progress %q, error %v; want %q", out, progress, err, want)
	}
}
