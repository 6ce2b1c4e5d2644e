package page

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/panics"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/notification"
)

const (
	// countLimit bounds what one look at the overview costs.
	countLimit = 10_000
	// countAge is how far back the finished messages are counted.
	countAge = time.Hour
)

// numbers counts for the overview.
type numbers struct {
	Dependencies
	queues *queueCounter
}

func newNumbers(d Dependencies) *numbers { return &numbers{d, newQueueCounter(d.Broker)} }

// count returns what it can count: the queues also if the database does not answer.
func (n *numbers) count(ctx context.Context) (page.Numbers, error) {
	result := page.Numbers{At: time.Now(), Gates: n.gates()}
	var (
		queues               map[string]int64
		queuesErr, recentErr error
		processed            inbox.Recent
		mails                notification.Recent
		both                 sync.WaitGroup
	)
	both.Go(func() { queues, queuesErr = n.queues.count(ctx, n.names()) })
	both.Go(func() {
		recentErr = panics.Catch(ctx, func() (err error) {
			processed, mails, err = n.recent(ctx)
			return err
		})
	})
	both.Wait()
	if recentErr != nil {
		result.Gates = append(result.Gates, databaseGate)
	}
	result.Nodes = append(n.waiting(queues, queuesErr), n.done(processed, mails, recentErr)...)
	result.Nodes = append(result.Nodes, n.aside(queues, queuesErr)...)
	for what, err := range map[string]error{"queues": queuesErr, "database": recentErr} {
		if err != nil {
			slog.WarnContext(ctx, "the overview has not all numbers", "without", what, "error", err)
		}
	}
	return result, nil
}

func (n *numbers) recent(ctx context.Context) (processed inbox.Recent, mails notification.Recent, err error) {
	processed, err = inbox.CountRecent(ctx, n.DB, countAge, notification.Lately, countLimit)
	if err == nil {
		mails, err = notification.CountRecent(ctx, n.DB, countAge, countLimit)
	}
	return processed, mails, err
}

func (n *numbers) names() []string {
	return append([]string{n.Queue, n.DeadLetters}, n.Retries...)
}

// databaseGate is for the page itself: the consumer may not have noticed yet.
const databaseGate = "the page waits for the database"

func (n *numbers) gates() (gates []string) {
	for _, what := range n.WaitsFor() {
		gates = append(gates, "the consumer waits for "+what)
	}
	return gates
}

const noBroker, noDatabase, lastHour = "the broker does not answer", "the database does not answer", "in the last hour"

// inQueue is the node of a queue.
func inQueue(name, label, queue string, counts map[string]int64, err error) page.Node {
	node := page.Node{Name: name, Label: label, Count: counts[queue], PerSecond: page.Unknown, OldestSeconds: page.Unknown}
	switch {
	case err != nil:
		node.Count, node.Note, node.Level = page.Unknown, noBroker, page.Warn
	case node.Count < 0:
		node.Count, node.Note, node.Level = page.Unknown, "there is no such queue yet", page.Warn
	}
	return node
}

func (n *numbers) waiting(counts map[string]int64, err error) []page.Node {
	return []page.Node{inQueue("queue", "in the queue", n.Queue, counts, err)}
}

func (n *numbers) done(processed inbox.Recent, mails notification.Recent, err error) []page.Node {
	node := func(name, label string, count, lately int64) page.Node {
		result := page.Node{Name: name, Label: label, Count: count, PerSecond: page.Unknown, OldestSeconds: page.Unknown, Note: lastHour}
		result.About = count >= countLimit
		if lately >= 0 {
			result.PerSecond = float64(lately) / notification.Lately.Seconds()
		}
		if err != nil {
			result.Count, result.PerSecond, result.Note, result.Level = page.Unknown, page.Unknown, noDatabase, page.Warn
		}
		return result
	}
	sending := node("sending", "being e-mailed", mails.Waiting, -1)
	if mails.OldestWaiting > 0 && err == nil {
		sending.OldestSeconds = mails.OldestWaiting
	}
	superseded := node("superseded", "superseded", mails.Superseded, -1)
	rejected := node("rejected", "rejected", mails.Rejected, -1)
	superseded.Side, rejected.Side = true, true
	if rejected.Count > 0 {
		rejected.Level = page.Warn
	}
	return []page.Node{
		node("consumed", "consumed", processed.Processed, processed.Lately),
		sending,
		node("emailed", "e-mailed", mails.Sent, mails.SentLately),
		superseded, rejected,
	}
}

func (n *numbers) aside(counts map[string]int64, err error) []page.Node {
	var nodes []page.Node
	for _, queue := range n.Retries {
		delay := queue[strings.LastIndex(queue, ".")+1:]
		retry := inQueue("retry."+delay, "retry in "+delay, queue, counts, err)
		retry.Side = true
		if retry.Count > 0 {
			retry.Level = page.Warn
		}
		nodes = append(nodes, retry)
	}
	dead := inQueue("dead", "dead letters", n.DeadLetters, counts, err)
	dead.Side, dead.Path = true, "/dead"
	if dead.Count > 0 {
		dead.Level, dead.Note = page.Bad, "wait for an operator"
	}
	return append(nodes, dead)
}
