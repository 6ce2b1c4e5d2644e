package systemtest

import (
	"slices"
	"sync"
	"testing"
)

// TestP5P6EveryEventThreeTimesAtTwoProcessesHasOneEffect lets all copies begin at the
// same moment: a lock makes the transactions of both processes wait for each other.
func TestP5P6EveryEventThreeTimesAtTwoProcessesHasOneEffect(t *testing.T) {
	t.Parallel()
	const n, copies, transactions = 60, 3, 4 // of each process at a time
	s := newSystem(t)
	s.watchEffects()
	small := []string{quick, "CONSUMER_BATCH_SIZE=5"}
	processes := []*service{s.consuming(small...), s.consuming(small...)}
	warm := s.warmUp(processes)

	events := newEvents(n)
	release := s.lockInbox()
	var publishers sync.WaitGroup
	for range copies {
		publishers.Go(func() { s.post(events...) })
	}
	publishers.Wait()
	s.awaitCount(s.notifications, len(processes)*transactions, waitingForInbox)
	release()

	s.awaitOutcomes(copies*n+len(warm), processes, "success", "duplicate")
	if got := one[int](s, s.notifications, "SELECT count(*) FROM efforts"); got != n+len(warm) {
		t.Errorf("the effects of %d events were recorded %d times", n+len(warm), got)
	}
	s.wantOnce(append(events, warm...))
}

// watchEffects notes each time that an effect is recorded, also one that changes nothing:
// the effect here is safe to record twice, and others may not be.
func (s *system) watchEffects() {
	s.Helper()
	_, err := s.notifications.Exec(s.Context(), `
		CREATE TABLE efforts (order_id uuid);
		CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
			INSERT INTO efforts VALUES (NEW.order_id);
			RETURN NEW;
		END $$;
		CREATE TRIGGER watch AFTER INSERT OR UPDATE ON order_progress FOR EACH ROW EXECUTE FUNCTION watch()`)
	must(s.T, err)
}

// warmUp sends events until each process takes more than one message at a time.
func (s *system) warmUp(processes []*service) (events []orderEvent) {
	s.Helper()
	for slices.ContainsFunc(processes, func(p *service) bool { return outcomes([]*service{p}, "success") == 0 }) {
		more := newEvents(1)
		s.post(more...)
		events = append(events, more...)
		s.awaitOutcomes(len(events), processes, "success")
	}
	return events
}

// lockInbox makes every delivery wait before its first write.
func (s *system) lockInbox() (release func()) {
	s.Helper()
	return s.lock(s.notifications, "processed_messages")
}

// TestP6AProcessThatStalledBeyondItsLeaseTakesNothingBack holds the e-mail of one
// process until another one has sent it. What the first one is told then is no news.
func TestP6AProcessThatStalledBeyondItsLeaseTakesNothingBack(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	alone := []string{quick, "CONSUMER_WORKERS=1", "CONSUMER_PREFETCH=1"}
	processes := []*service{s.consuming(alone...), s.consuming(alone...)}
	events := newEvents(1)
	asked, answer := s.mail.hold(events[0])
	s.post(events...)
	<-asked
	s.endLeases()
	s.post(events...) // the other process gets it: this one has its hands full
	<-asked
	s.awaitCount(s.notifications, 1, sent)
	answer(refused(451, always)(1))
	s.awaitOutcomes(1, processes, "retry")
	s.awaitOutcomes(2, processes, "success", "duplicate")
	s.wantOnce(events)
	if got := one[int](s, s.notifications, "SELECT attempts FROM notifications"); got != 2 {
		t.Errorf("%d attempts, want that of each process", got)
	}
}
