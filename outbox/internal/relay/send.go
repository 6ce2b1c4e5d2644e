package relay

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"example.com/transactional-outbox/outbox/internal/crashpoint"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// send hands the claimed events to the publisher. Those that may have ended a publisher are sent
// apart, later.
func (w *worker) send(ctx context.Context, claim store.Claim) {
	if len(claim.Events)+len(claim.NoPayload) == 0 {
		return
	}
	w.log.Step(ctx, "outbox events fetched", "count", len(claim.Events), "worker", w.name)
	crashpoint.At("relay.claimed")
	if !w.trials {
		w.topics.claimed(claim.Events)
	}
	if w.inFlight.empty() {
		w.renewed = w.claimed // the lease begins when it was asked for
	}
	b := w.newBatch(ctx, claim)
	w.bytes.Add(b.bytes)
	w.inFlight.batches = append(w.inFlight.batches, b)
	var together []*item
	for _, it := range b.items {
		switch {
		case it.state != unsent: // it is not to be sent
		case w.oneByOne && w.unanswered.has(it.event.ID):
			v := w.decide(it.event, publish.Result{Outcome: publish.Unknown, Err: publish.ErrOverdue}, w.trials)
			v.failure.Counts = false // the call that runs has counted
			it.decide(v)
			trace.SpanFromContext(it.trace).End() //nolint:contextcheck // the message's own
		case w.losses.has(it.event.ID):
			w.apart = append(w.apart, it)
		default:
			together = append(together, it)
		}
	}
	w.hand(b, together) //nolint:contextcheck // the sender looks at running
}

// newBatch makes the messages of a claim and starts a span for each. Each span starts from the
// worker's ctx, so that the trace of one event does not continue in the next.
func (w *worker) newBatch(ctx context.Context, claim store.Claim) *batch {
	b := &batch{token: claim.Token, read: time.Now(), lease: newLease(w.claimed, w.config.Lease)}
	tracer, name := w.config.TracerProvider.Tracer("example.com/transactional-outbox/outbox"), "publish "+w.destination
	for _, e := range claim.Events {
		parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{
			store.TraceHeader: e.Traceparent, store.StateHeader: e.Headers[store.StateHeader],
		})
		ctx, span := tracer.Start(parent, name, trace.WithSpanKind(trace.SpanKindProducer))
		if span.IsRecording() {
			span.SetAttributes(w.attributes(e)...)
		}
		m := e.Message(w.config.AppID)
		for name, own := range store.TraceOf(ctx) {
			m.Headers[name] = own
		}
		b.add(item{event: e, message: m, trace: ctx})
	}
	for _, e := range claim.NoPayload {
		b.add(item{event: e, state: decided, verdict: verdict{failure: store.Failure{
			ID: e.ID, Final: true, Code: codeNoPayload, Reason: "the event is in outbox_queue, and its payload is not in outbox_events",
		}}})
	}
	return b
}

// sendApart sends events that may have ended a publisher, as soon as nothing else waits for an
// answer: first one, and after each success twice as many. So the one among thousands that ends a
// publisher is soon alone. Those of a paused topic wait with their topic.
func (w *worker) sendApart() {
	for len(w.apart) > 0 && (w.sender == nil || !w.sender.lost) && w.inFlight.count(sent) == 0 {
		w.group = max(1, 2*w.group)
		b, group := w.apart[0].batch, []*item(nil)
		for len(w.apart) > 0 && w.apart[0].batch == b && len(group) < w.group {
			it := w.apart[0]
			w.apart = w.apart[1:]
			if w.phase == ending || !w.trials && w.topics.isPaused(it.event.PauseName()) {
				it.release()
				continue
			}
			group = append(group, it)
		}
		w.hand(b, group)
	}
	if len(w.apart) == 0 {
		w.group = 0
	}
}

// hand gives events of a batch to the sender.
func (w *worker) hand(b *batch, items []*item) {
	if len(items) == 0 {
		return
	}
	if w.inFlight.count(sent) == 0 {
		w.quiet = time.Now()
	}
	for _, it := range items {
		it.set(sent)
	}
	b.sentAt, b.slow = time.Time{}, false
	if w.sender == nil {
		w.sender = newSender(w.running, &w.answers, func() (publish.Publisher, error) { return w.session.NewPublisher(w.config.Window) })
		if w.oneByOne {
			w.sender.unanswered = &w.unanswered
		}
	}
	limit := w.config.ConfirmTimeout * 9 / 10 // what is not sent by then is not sent later: it would be sent twice
	if w.oneByOne {
		limit = maxLease // the session has a bound for each message, which begins when the message is begun
	}
	w.sender.send(b, items, limit)
}

// sender opens a publisher, and calls it, in a goroutine of its own, because a connection that is
// not read blocks whoever writes to it.
type sender struct {
	lost bool // the publisher has ended; it belongs to the worker

	answers    *answers
	unanswered *unanswered // nil unless the session answers one by one
	publisher  publish.Publisher
	failed     error                    // there is no publisher
	queue      chan func(instead error) // publishes, or answers with the error
	ctx        context.Context
	finish     context.CancelFunc // nothing more is begun
	opened     chan struct{}
	done       chan struct{}
}

// maxQueue is how many batches may wait until an earlier one is written.
const maxQueue = 100

// newSender opens a publisher that begins nothing more when ctx ends.
func newSender(ctx context.Context, to *answers, open func() (publish.Publisher, error)) *sender {
	s := &sender{answers: to, queue: make(chan func(error), maxQueue), opened: make(chan struct{}), done: make(chan struct{})}
	s.ctx, s.finish = context.WithCancel(ctx)
	go func() {
		defer close(s.done)
		s.publisher, s.failed = open()
		close(s.opened)
		for publish := range s.queue {
			publish(s.failed)
		}
	}()
	return s
}

func (s *sender) full() bool { return len(s.queue) == maxQueue }

// send publishes events when the earlier ones are written, and at most for so long.
func (s *sender) send(b *batch, items []*item, limit time.Duration) {
	messages := make([]publish.Message, len(items))
	for i, it := range items {
		messages[i] = it.message
	}
	answered := func(i int, r publish.Result) { s.answers.add(answer{item: items[i], result: r}) }
	if s.unanswered != nil {
		answered = s.unanswered.sent(items, s.answers)
	}
	s.queue <- func(instead error) {
		if instead != nil {
			for i := range items {
				answered(i, publish.Result{Outcome: publish.NotSent, Err: instead})
			}
			return
		}
		s.answers.add(answer{begun: b, at: time.Now()})
		ctx, cancel := context.WithTimeout(s.ctx, limit)
		context.AfterFunc(b.lease.over, cancel) // not when Publish returns: it may send later
		s.publisher.Publish(leased{ctx, b.lease}, messages, answered)
	}
}

// errEnded is the reason of a message that is not begun, because the session or Run has ended.
var errEnded = fmt.Errorf("%w: %w", publish.ErrNotSent, context.Canceled)

// emptyQueue gives up the batches that wait until an earlier one is written. Nothing of them was sent.
func (s *sender) emptyQueue() {
	for {
		select {
		case give := <-s.queue:
			give(errEnded)
		default:
			return
		}
	}
}

// close ends the publisher, and waits for the answers to everything. It returns an error if there
// is no publisher.
func (s *sender) close() error {
	s.finish()
	close(s.queue)
	<-s.opened
	if s.failed == nil {
		s.publisher.Close()
	}
	<-s.done
	return s.failed
}
