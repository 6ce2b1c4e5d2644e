package publishtest

import (
	"fmt"
	"slices"

	"example.com/transactional-outbox/outbox/publish"
)

// groupsInOrder publishes batch after batch on one publisher.
func (c contract) groupsInOrder() {
	p := c.publisher()
	var all []publish.Message
	for range 10 {
		batch := c.interleaved(20, 4)
		c.confirm(p, batch...)
		all = append(all, batch...)
	}
	c.requireOrder(all)
}

func (c contract) groupsInOrderInABigBatch() {
	p, batch := c.publisher(), c.interleaved(window, 7)
	c.confirm(p, batch...)
	c.requireOrder(batch)
}

// interleaved returns n messages. Each group has one in turn. Some are much larger than others.
func (c contract) interleaved(n, groups int) (messages []publish.Message) {
	for i := range n {
		m := c.message(fmt.Sprint("group-", i%groups))
		if i%3 == 0 {
			m.Body = make([]byte, 16<<10)
		}
		messages = append(messages, m)
	}
	return messages
}

// requireOrder compares the order of each group. Only the first copy of a message counts. The
// groups are from the sent messages, because a broker need not deliver them.
func (c contract) requireOrder(messages []publish.Message) {
	c.Helper()
	group, want, got := map[string]string{}, map[string][]string{}, map[string][]string{}
	for _, m := range messages {
		group[m.ID] = m.Group
		want[m.Group] = append(want[m.Group], m.ID)
	}
	for _, m := range c.stored(messages...) {
		if name := group[m.ID]; !slices.Contains(got[name], m.ID) {
			got[name] = append(got[name], m.ID)
		}
	}
	for name := range want {
		if !slices.Equal(got[name], want[name]) {
			c.Errorf("%s is not stored in the order in which it was published", name)
		}
	}
}
