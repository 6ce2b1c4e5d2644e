package relay

import (
	"context"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// writer opens a publisher, and calls it, in a goroutine of its own, because a connection that is
// not read blocks whoever writes to it.
type writer struct {
	sender *sender
	ctx    context.Context
	finish context.CancelFunc // nothing more is begun
	// These belong to the sender.
	isLost  bool // the publisher has ended
	unknown int  // events without an answer when it ended
	queue   chan group
	opened  chan struct{}
	done    chan struct{}

	publisher publish.Publisher // once it is opened
	failed    error             // there is no publisher
}

// group is events of a batch that are sent together.
type group struct {
	batch *batch
	items []*item
}

// maxQueue is how many groups may wait until an earlier one is written.
const maxQueue = 100

func newWriter(s *sender) *writer {
	w := &writer{sender: s, queue: make(chan group, maxQueue+1), opened: make(chan struct{}), done: make(chan struct{})}
	w.ctx, w.finish = context.WithCancel(s.ctx)
	go func() {
		defer close(w.done)
		w.publisher, w.failed = s.session.NewPublisher(s.config.Window)
		close(w.opened)
		for g := range w.queue {
			w.publish(g)
		}
	}()
	return w
}

func (w *writer) publish(g group) {
	if w.failed != nil {
		w.answer(g, publish.Result{Outcome: publish.NotSent, Err: w.failed})
		return
	}
	messages := make([]publish.Message, len(g.items))
	for i, it := range g.items {
		messages[i] = it.message
	}
	limit := w.sender.config.ConfirmTimeout * 9 / 10 // what is not sent by then is not sent later: it would be sent twice
	answered := func(i int, r publish.Result) { w.sender.answered(g.items[i], r) }
	if w.sender.isOneByOne {
		limit = maxLease // the session has a bound for each message, which begins when the message is begun
		answered = w.sender.unanswered.sent(g.items, w.sender.answered)
	}
	g.batch.answers.add(answer{begun: g.items, at: time.Now()})
	ctx, cancel := context.WithTimeout(w.ctx, limit)
	context.AfterFunc(g.batch.lease.over, cancel) // not when Publish returns: it may send later
	w.publisher.Publish(leased{ctx, g.batch.lease}, messages, answered)
}

func (w *writer) isOpen() bool {
	select {
	case <-w.opened:
		return true
	default:
		return false
	}
}

// giveBack answers the groups that wait until an earlier one is written. Nothing of them was sent.
func (w *writer) giveBack(r publish.Result) {
	for {
		select {
		case g := <-w.queue:
			w.answer(g, r)
		default:
			return
		}
	}
}

func (w *writer) answer(g group, r publish.Result) {
	for _, it := range g.items {
		w.sender.answered(it, r)
	}
}

// close ends the publisher, also while it opens. When everything has its answer, the channel has an
// error if there was no publisher.
func (w *writer) close() <-chan error {
	w.finish()
	close(w.queue)
	closed := make(chan error, 1)
	go func() {
		<-w.opened
		if w.failed == nil {
			w.publisher.Close()
		}
		<-w.done
		closed <- w.failed
	}()
	return closed
}
