package page

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"example.com/transactional-outbox/internal/outboxpage"
	"example.com/transactional-outbox/internal/page"
)

// numbers counts for the overview.
type numbers struct {
	Dependencies
	outbox func(context.Context) (page.Numbers, error)
	queues *queueCounter
	names  []string // of the queues
}

func newNumbers(d Dependencies, outbox outboxpage.Pages) *numbers {
	n := &numbers{Dependencies: d, outbox: outbox.Numbers(), queues: newQueueCounter(d.Broker)}
	for _, q := range d.Queue.Topology().Queues {
		n.names = append(n.names, q.Name)
	}
	return n
}

// count returns what it can count: the queues also if the database does not answer.
func (n *numbers) count(ctx context.Context) (result page.Numbers, _ error) {
	var (
		queues               map[string]int64
		queuesErr, outboxErr error
		both                 sync.WaitGroup
	)
	both.Go(func() { queues, queuesErr = n.queues.count(ctx, n.names) })
	both.Go(func() { result, outboxErr = n.outbox(ctx) })
	both.Wait()
	for _, what := range n.ConsumerWaitsFor() {
		result.Gates = append(result.Gates, "the consumer waits for "+what)
	}
	for what, err := range map[string]error{"queues": queuesErr, "outbox": outboxErr} {
		if err != nil {
			slog.WarnContext(ctx, "the overview has not all numbers", "without", what, "error", err)
		}
	}
	emails := result.Nodes
	result.Nodes = append([]page.Node{inQueue("queue", "in the queue", n.Queue.Name, queues, queuesErr)}, emails...)
	result.Nodes = append(result.Nodes, n.aside(queues, queuesErr)...)
	return result, nil
}

// inQueue is the node of a queue.
func inQueue(name, label, queue string, counts map[string]int64, err error) page.Node {
	node := page.Node{Name: name, Label: label, Count: counts[queue], PerSecond: page.Unknown, OldestSeconds: page.Unknown}
	switch {
	case err != nil:
		node.Count, node.Note, node.Level = page.Unknown, "the broker does not answer", page.Warn
	case node.Count < 0:
		node.Count, node.Note, node.Level = page.Unknown, "there is no such queue yet", page.Warn
	}
	return node
}

// aside are the retry queues and the dead letters.
func (n *numbers) aside(counts map[string]int64, err error) (nodes []page.Node) {
	for _, queue := range n.names {
		delay, isRetry := strings.CutPrefix(queue, n.Queue.Name+".retry.")
		if !isRetry {
			continue
		}
		retry := inQueue("retry."+delay, "retry in "+delay, queue, counts, err)
		retry.Side = true
		if retry.Count > 0 {
			retry.Level = page.Warn
		}
		nodes = append(nodes, retry)
	}
	dead := inQueue("dead", "dead letters", n.Queue.DeadLetterQueue(), counts, err)
	dead.Side, dead.Path = true, "/dead"
	if dead.Count > 0 {
		dead.Level, dead.Note = page.Bad, "wait for an operator"
	}
	return append(nodes, dead)
}
