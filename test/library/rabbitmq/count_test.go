package rabbitmq_test

import "testing"

func TestCountReadyCountsWhatMayBeDelivered(t *testing.T) {
	t.Parallel()
	b := newBrokerTest(t)
	queue := b.queue(nil)
	s := b.session()
	b.put(queue, "a", "b", "c")
	if n, exists, err := s.CountReady(queue); n != 3 || !exists || err != nil {
		t.Errorf("%d messages, exists %v, error %v", n, exists, err)
	}
	for range 2 { // a missing queue does not harm the session
		if n, exists, err := s.CountReady(queue + ".missing"); n != 0 || exists || err != nil {
			t.Errorf("a missing queue: %d messages, exists %v, error %v", n, exists, err)
		}
	}
	if s.Blocked() {
		t.Error("a broker without an alarm blocks")
	}
}
