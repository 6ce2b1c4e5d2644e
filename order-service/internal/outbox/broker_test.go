package outbox_test

import (
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// version identifies an event: the third event of an order is version 3.
type version struct {
	aggregate uuid.UUID
	number    int
}

// broker is where simulated relays publish. It records in which order the events of each aggregate
// appeared for the first time.
type broker struct {
	mu       sync.Mutex
	versions map[uuid.UUID]version // by message id; written before the relays start
	first    map[uuid.UUID][]int   // by aggregate
}

func (b *broker) publish(id uuid.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.versions[id]
	if !slices.Contains(b.first[v.aggregate], v.number) {
		b.first[v.aggregate] = append(b.first[v.aggregate], v.number)
	}
}

// stored reports whether the broker has received the event.
func (b *broker) stored(id uuid.UUID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.versions[id]
	return slices.Contains(b.first[v.aggregate], v.number)
}

// checkOrder checks that the first appearances are 1, 2, 3 and so on. It ignores discarded events:
// the later ones do not wait for them.
func (b *broker) checkOrder(discarded map[version]bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for aggregate, appeared := range b.first {
		next := 1
		for _, number := range appeared {
			if discarded[version{aggregate, number}] {
				continue
			}
			for discarded[version{aggregate, next}] {
				next++
			}
			if number != next {
				return fmt.Errorf("the versions of one order appeared as %v, discarded %v", appeared, discarded)
			}
			next++
		}
	}
	return nil
}
