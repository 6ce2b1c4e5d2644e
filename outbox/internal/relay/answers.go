package relay

import (
	"sync"
	"time"
)

// answer is what a publisher says about an event, or that it has begun some.
type answer struct {
	item    *item
	outcome outcome
	err     error // why it is not confirmed

	begun []*item
	at    time.Time
}

// answers are those that a batch has not received yet.
type answers struct {
	mu   sync.Mutex
	list []answer
	late *late         // gets what comes after the end of the batch
	some chan struct{} // wakes the batch
}

func (a *answers) add(one answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch it := one.item; {
	case a.late == nil:
		if a.list = append(a.list, one); len(a.list) == 1 { // for the others the batch is awake already
			signal(a.some)
		}
	case it != nil && it.counts(one.outcome):
		a.late.add(it.event)
	}
}

func (a *answers) take() []answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.list
	a.list = nil
	return all
}

// redirect lets the late confirms go elsewhere. It returns what the batch has not received.
func (a *answers) redirect(to *late) []answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = to
	return a.list
}
