package publish

import (
	"errors"
	"time"
)

// funcTopic has the messages of a topic that wait for a call.
type funcTopic struct {
	waiting []*funcCall
	running int           // calls
	isReady bool          // it is in function.ready
	usually time.Duration // how long a call takes that is Confirmed; 0: not known
	moved   time.Time     // when the last call returned, or the first of those that run began
}

const (
	// silentAfter is how long no call of a topic has returned if the topic is silent, unless it usually
	// needs more than half of that.
	silentAfter = time.Second
	// longestWait is for the calls before. The time is estimated.
	longestWait = 5 * time.Second
	// maxTopics bounds the memory. Then those without a message are forgotten.
	maxTopics = 10_000
)

// topic returns what is known of a topic.
func (f *function) topic(name string) *funcTopic {
	t := f.topics[name]
	if t == nil {
		for other, t := range f.topics {
			if len(f.topics) >= maxTopics && t.running == 0 && len(t.waiting) == 0 {
				delete(f.topics, other)
			}
		}
		t = &funcTopic{}
		f.topics[name] = t
	}
	return t
}

// isMany reports that each topic has a destination of its own.
func (f *function) isMany() bool { return f.CallsPerTopic < f.Calls }

// excess takes away the messages that must not wait, because the topic is silent or slow.
func (f *function) excess(t *funcTopic) (busy []*funcCall) {
	room := len(t.waiting)
	switch {
	case !f.isMany():
	case t.running > 0 && time.Since(t.moved) >= max(silentAfter, 2*t.usually):
		room = 0
	case t.usually > 0:
		room = min(room, max(1, int(longestWait/t.usually))*f.CallsPerTopic+max(0, f.CallsPerTopic-t.running))
	}
	return t.cut(room)
}

// cut takes away all messages that wait, but the first ones.
func (t *funcTopic) cut(room int) (rest []*funcCall) {
	for _, c := range t.waiting[room:] {
		if c.waits {
			c.waits = false
			rest = append(rest, c)
		}
	}
	t.waiting = t.waiting[:room]
	return rest
}

// enqueue lets messages wait, and begins calls.
func (f *function) enqueue(calls []*funcCall) {
	var busy, late []*funcCall
	f.mu.Lock()
	for _, c := range calls {
		if c.unanswered.Add(1); c.closed.Err() != nil {
			late = append(late, c)
			continue
		}
		c.topic, c.waits = f.topic(c.message.Topic), true
		c.topic.waiting = append(c.topic.waiting, c)
		busy = append(busy, f.excess(c.topic)...)
		f.offer(c.topic)
	}
	f.begin()
	f.mu.Unlock()
	refuse(busy, ErrBusy)
	refuse(late, errNotBegun)
}

// giveUp answers those of the messages that still wait.
func (f *function) giveUp(calls []*funcCall) {
	var waited []*funcCall
	f.mu.Lock()
	for _, c := range calls {
		if c.waits {
			c.waits = false // begin finds it later
			waited = append(waited, c)
		}
	}
	f.mu.Unlock()
	refuse(waited, errNotBegun)
}

func refuse(calls []*funcCall, reason error) {
	for _, c := range calls {
		c.finish(Result{Outcome: NotSent, Err: reason})
	}
}

// offer gives a topic a turn, if it can use it.
func (f *function) offer(t *funcTopic) {
	if !t.isReady && len(t.waiting) > 0 && t.running < f.CallsPerTopic {
		t.isReady = true
		f.ready = append(f.ready, t)
	}
}

// begin begins calls while there are free ones, for one topic after the other.
func (f *function) begin() {
	for f.counted < f.Calls && len(f.ready) > 0 {
		t := f.ready[0]
		f.ready, t.isReady = f.ready[1:], false
		if len(t.waiting) == 0 {
			continue
		}
		c := t.waiting[0]
		if t.waiting = t.waiting[1:]; c.waits {
			c.waits, c.counts = false, true
			f.counted++
			if t.running++; t.running == 1 {
				t.moved = time.Now()
			}
			go c.run()
		}
		f.offer(t)
	}
}

// end gives the call to another message, before the answer, after which the next message may follow.
func (c *funcCall) end(r Result, took time.Duration) {
	c.mu.Lock()
	t := c.topic
	t.running--
	t.moved = time.Now()
	if r.Outcome == Confirmed {
		if t.usually > 0 {
			took = (3*t.usually + took) / 4
		}
		t.usually = max(took, 1)
	}
	gone, reason := c.excess(t), ErrBusy
	if errors.Is(r.Err, ErrBusy) { // the others cannot be sent either
		gone, reason = append(gone, t.cut(0)...), r.Err
	}
	c.offer(t)
	c.uncount()
	c.mu.Unlock()
	c.finish(r)
	refuse(gone, reason)
}

// uncount lets another call begin.
func (c *funcCall) uncount() {
	if c.counts {
		c.counts = false
		c.counted--
	}
	c.begin()
}

// slow is called each second of a call.
func (c *funcCall) slow() {
	c.mu.Lock()
	if c.isMany() {
		c.uncount()
	}
	busy := c.excess(c.topic)
	c.mu.Unlock()
	refuse(busy, ErrBusy)
}

// overdue is called when the function has not returned.
func (c *funcCall) overdue() {
	c.mu.Lock()
	c.uncount()
	c.mu.Unlock()
	c.finish(Result{Outcome: Unknown, Err: ErrOverdue})
}
