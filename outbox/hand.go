package outbox

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// item is an event in hand.
type item struct {
	batch   *batch
	event   store.Event
	message publish.Message
	trace   context.Context // the message's own
	state   state
	verdict verdict // once it is answered
}

type state int

const (
	unsent   state = iota
	sent           // it waits for its answer
	answered       // and not settled
	settled
)

// batch is the events of a claim.
type batch struct {
	token  uuid.UUID
	items  []*item
	read   time.Time        // when the ages of the events were read
	count  [settled + 1]int // of the items in each state
	bytes  int              // of their payloads
	sentAt time.Time        // of those that wait for an answer
	first  time.Time        // when the first answer came that is not settled
	slow   bool             // it has waited for so long that it takes no place in the window
	pauses []string         // topics to pause, because nothing was taken
	lease  *lease
}

func (b *batch) add(it item) {
	it.batch = b
	b.items = append(b.items, &it)
	b.count[it.state]++
	b.bytes += len(it.event.Payload)
}

func (it *item) set(to state) {
	it.batch.count[it.state]--
	it.batch.count[to]++
	it.state = to
}

// hand is what a worker has in hand.
type hand struct{ batches []*batch }

func (h *hand) empty() bool { return len(h.batches) == 0 }

// waiting is how many events take a place in the window.
func (h *hand) waiting() (n int) {
	for _, b := range h.batches {
		n += b.count[unsent] + b.count[answered]
		if !b.slow {
			n += b.count[sent]
		}
	}
	return n
}

// slow is how many events take no place in the window, although they have no answer.
func (h *hand) slow() (n int) {
	for _, b := range h.batches {
		if b.slow {
			n += b.count[sent]
		}
	}
	return n
}

// bytes are those of the payloads of all batches.
func (h *hand) bytes() (n int) {
	for _, b := range h.batches {
		n += b.bytes
	}
	return n
}

// open is how many events wait for their answers.
func (h *hand) open() (n int) {
	for _, b := range h.batches {
		n += b.count[sent]
	}
	return n
}

// next is when a batch is to be settled, becomes slow, or has had no answer for too long.
func (h *hand) next(c RelayConfig) time.Time {
	next := time.Now().Add(time.Hour)
	for _, b := range h.batches {
		if b.count[answered] > 0 {
			next = earlier(next, b.first.Add(c.SettleAfter))
		}
		if b.count[sent] > 0 {
			next = earlier(next, b.sentAt.Add(c.ConfirmTimeout))
		}
		if b.count[sent] > 0 && !b.slow {
			next = earlier(next, b.sentAt.Add(slowAfter))
		}
	}
	return next
}

// restart begins the waits for answers anew.
func (h *hand) restart(now time.Time) {
	for _, b := range h.batches {
		b.sentAt = now
	}
}

func (h *hand) tokens() (tokens []uuid.UUID) {
	for _, b := range h.batches {
		tokens = append(tokens, b.token)
	}
	return tokens
}

// drop forgets what is settled.
func (h *hand) drop() {
	h.batches = slices.DeleteFunc(h.batches, func(b *batch) bool {
		done := b.count[settled] == len(b.items)
		if done {
			b.lease.end()
		}
		return done
	})
}

// answered is how many events have an answer that is not marked.
func (h *hand) answered() (n int) {
	for _, b := range h.batches {
		n += b.count[answered]
	}
	return n
}

// answer is what a publisher says about a message.
type answer struct {
	*item
	result publish.Result
}

// answers are those that the worker has not taken yet.
type answers struct {
	mu    sync.Mutex
	list  []answer
	some  chan struct{}
	eager bool // the worker settles each answer at once
}

// eagerBelow is the SettleAfter for which a worker wakes at each answer.
const eagerBelow = time.Millisecond

func newAnswers(c RelayConfig) answers {
	return answers{some: make(chan struct{}, 1), eager: c.SettleAfter < eagerBelow}
}

// add adds the nth answer of so many events that were sent together. It wakes the worker at the first
// one, at the last one, and at each that is not good.
func (a *answers) add(it *item, r publish.Result, nth, sent int) {
	a.mu.Lock()
	a.list = append(a.list, answer{it, r})
	a.mu.Unlock()
	if nth == 1 || nth == sent || r.Outcome != publish.Confirmed || a.eager {
		signal(a.some)
	}
}

func (a *answers) all() []answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.list
	a.list = nil
	return all
}

// sender opens a publisher, and calls it, in a goroutine of its own, because a connection that is not
// read blocks whoever writes to it.
type sender struct {
	publisher publish.Publisher
	failed    error // there is no publisher
	batches   chan func()
	ctx       context.Context
	finish    context.CancelFunc // nothing more is sent
	opened    chan struct{}
	done      chan struct{}
}

// maxUnsent is how many batches may wait until an earlier one is written.
const maxUnsent = 100

func newSender(open func() (publish.Publisher, error)) *sender {
	ctx, finish := context.WithCancel(context.Background())
	s := &sender{
		batches: make(chan func(), maxUnsent), ctx: ctx, finish: finish, opened: make(chan struct{}), done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		s.publisher, s.failed = open()
		close(s.opened)
		for write := range s.batches {
			write()
		}
	}()
	return s
}

func (s *sender) full() bool { return s != nil && len(s.batches) == maxUnsent }

// send publishes events. What is not sent by the deadline is not sent later: the worker is
// about to give up, and the event would be sent twice.
func (s *sender) send(lease *lease, items []*item, answers *answers, deadline time.Time) {
	messages := make([]publish.Message, len(items))
	for i, it := range items {
		messages[i] = it.message
	}
	var answered atomic.Int64
	answer := func(i int, r publish.Result) { answers.add(items[i], r, int(answered.Add(1)), len(items)) }
	s.batches <- func() {
		if s.failed != nil {
			for i := range items {
				answer(i, publish.Result{Outcome: publish.NotSent, Err: s.failed})
			}
			return
		}
		ctx, cancel := context.WithDeadline(s.ctx, deadline)
		context.AfterFunc(ctx, cancel) // not when Publish returns: it may send later
		context.AfterFunc(lease.over, cancel)
		s.publisher.Publish(leased{ctx, lease}, messages, answer)
	}
}

// close ends the publisher, and waits for the answers to everything. It returns an error if there is
// no publisher.
func (s *sender) close() error {
	s.finish()
	close(s.batches)
	<-s.opened
	if s.failed == nil {
		s.publisher.Close()
	}
	<-s.done
	return s.failed
}
