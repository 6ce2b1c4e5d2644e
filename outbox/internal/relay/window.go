package relay

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// window is what the batches of a worker have in flight, and what they tell it.
type window struct {
	bytes *atomic.Int64 // of the payloads in flight, of all workers
	pace  *pace

	mu      sync.Mutex
	batches map[*batch]places
	all     places
	news    news
	some    chan struct{} // wakes the worker
}

// places are numbers of events.
type places struct {
	waiting int // for an answer, or to be recorded: these take a place
	slow    int // of silent topics: these take no place
}

func (p *places) change(from, to places) {
	*p = places{p.waiting + to.waiting - from.waiting, p.slow + to.slow - from.slow}
}

// news is what has happened since the worker last looked.
type news struct {
	isDue        bool // a batch has recorded something, so events may be due
	isPaused     bool // a topic
	isTriedAgain bool // a topic, soon
}

func newWindow(bytes *atomic.Int64, p *pace) *window {
	return &window{bytes: bytes, pace: p, batches: map[*batch]places{}, some: make(chan struct{}, 1)}
}

// set notes the places of a batch. It returns how many events of the relay wait, as pace has it.
func (w *window) set(b *batch, p places) (waiting int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.batches[b]
	w.batches[b] = p
	if w.all.change(before, p); p.waiting < before.waiting {
		signal(w.some)
	}
	return w.pace.change(before, p)
}

func (w *window) remove(b *batch) {
	w.set(b, places{})
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.batches, b)
	signal(w.some)
}

func (w *window) tell(n news) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news = news{w.news.isDue || n.isDue, w.news.isPaused || n.isPaused, w.news.isTriedAgain || n.isTriedAgain}
	signal(w.some)
}

// take returns the news, once.
func (w *window) take() news {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.news
	w.news = news{}
	return n
}

func (w *window) waiting() int  { w.mu.Lock(); defer w.mu.Unlock(); return w.all.waiting }
func (w *window) slow() int     { w.mu.Lock(); defer w.mu.Unlock(); return w.all.slow }
func (w *window) isEmpty() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.batches) == 0 }

// inHand are the batches that have not ended.
func (w *window) inHand() []*batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.batches))
}
