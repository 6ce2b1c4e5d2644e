package system

import (
	"sync"
	"testing"
)

// TestP5P6ConcurrentDuplicatesHaveOneEffect publishes every event three times to two
// processes. A lock on the inbox makes their transactions start at the same moment.
func TestP5P6ConcurrentDuplicatesHaveOneEffect(t *testing.T) {
	t.Parallel()
	const n, copies, transactions = 60, 3, 4 // of each process at a time
	s := newSystem(t)
	s.recordEffects()
	small := []string{quickRetries, "CONSUMER_BATCH_SIZE=5"}
	processes := []*service{s.startConsumer(small...), s.startConsumer(small...)}
	warm := s.warmUp(processes)

	events := newEvents(n)
	release := s.lockInbox()
	var publishers sync.WaitGroup
	for range copies {
		publishers.Go(func() { s.publishUntilRouted(events...) })
	}
	publishers.Wait()
	s.awaitCount(s.notificationsDB, len(processes)*transactions, waitingForInboxCount)
	release()

	s.awaitOutcomes(copies*n+len(warm), processes, "success", "duplicate")
	if got := queryValue[int](s, s.notificationsDB, "SELECT count(*) FROM effects"); got != n+len(warm) {
		t.Errorf("the effects of %d events were recorded %d times", n+len(warm), got)
	}
	s.wantOnce(append(events, warm...))
}

// recordEffects adds a trigger that records each write of an effect, even if it changes
// nothing. This effect may be written twice without harm; another effect may not.
func (s *system) recordEffects() {
	s.Helper()
	_, err := s.notificationsDB.Exec(s.Context(), `
		CREATE TABLE effects (order_id uuid);
		CREATE FUNCTION record_effect() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
			INSERT INTO effects VALUES (NEW.order_id);
			RETURN NEW;
		END $$;
		CREATE TRIGGER record_effect AFTER INSERT OR UPDATE ON order_progress FOR EACH ROW EXECUTE FUNCTION record_effect()`)
	must(s.T, err)
}

// waitingForInboxCount counts the transactions that wait for lockInbox.
const waitingForInboxCount = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO processed_messages%'"

// lockInbox makes every transaction of the consumer wait before its first write.
func (s *system) lockInbox() (release func()) {
	s.Helper()
	return s.lock(s.notificationsDB, "processed_messages")
}

// TestP6AProcessStalledBeyondItsLeaseUndoesNothing delays the mail server's reply to one
// process until another process has sent the e-mail. The late reply must change nothing.
func TestP6AProcessStalledBeyondItsLeaseUndoesNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	alone := []string{quickRetries, "CONSUMER_WORKERS=1", "CONSUMER_PREFETCH=1"}
	processes := []*service{s.startConsumer(alone...), s.startConsumer(alone...)}
	events := newEvents(1)
	asked, answer := s.mail.holdRecipient(events[0])
	s.publishUntilRouted(events...)
	<-asked
	s.expireLeases()
	s.publishUntilRouted(events...) // the other process gets it: the first one is busy
	<-asked
	s.awaitCount(s.notificationsDB, 1, sentCount)
	answer(refused(451, always)(1))
	s.awaitOutcomes(1, processes, "retry")
	s.awaitOutcomes(2, processes, "success", "duplicate")
	s.wantOnce(events)
	if got := queryValue[int](s, s.notificationsDB, "SELECT attempts FROM notifications"); got != 2 {
		t.Errorf("%d attempts, want one of each process", got)
	}
}

// TestP5P6ADuplicateHasNoSecondEffect publishes the same message three more times.
func TestP5P6ADuplicateHasNoSecondEffect(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	copies := s.subscribe()
	s.runNotifications().awaitLog("taking messages")
	s.place(s.runOrders())
	copies.awaitMessages(1)
	s.awaitCount(s.notificationsDB, 1, sentCount)

	message := publishingOf(copies.lastMessage())
	for range 3 {
		s.publish(message)
	}
	s.awaitQueueDrained()
	if got := queryValue[int](s, s.notificationsDB, "SELECT count(*) FROM notifications"); got != 1 {
		t.Errorf("%d notifications, want one", got)
	}
	s.wantEmails(1, 0)
	s.wantNoDeadLetters()
}
