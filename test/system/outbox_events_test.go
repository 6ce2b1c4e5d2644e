package system

import (
	"slices"
	"strings"

	"github.com/google/uuid"
)

// outboxEvent is an event that a test inserts into the outbox itself, because the service
// would never write it.
type outboxEvent struct{ topic, payload string }

// createdEvents returns n events that the broker accepts.
func createdEvents(n int) []outboxEvent {
	return slices.Repeat([]outboxEvent{{createdKey, "{}"}}, n)
}

// insertEvents inserts events of different orders in one transaction, and returns their ids.
func (s *system) insertEvents(events ...outboxEvent) []string {
	s.Helper()
	var ids, topics, payloads []string
	for _, e := range events {
		ids, topics, payloads = append(ids, uuid.NewString()), append(topics, e.topic), append(payloads, e.payload)
	}
	_, err := s.ordersDB.Exec(s.Context(), `
		WITH event AS (
			INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type)
			SELECT id, (SELECT current FROM outbox_ring), 'order', id, 1, topic, convert_to(payload, 'UTF8'), 'application/json'
			FROM unnest($1::uuid[], $2::text[], $3::text[]) AS e (id, topic, payload)
			RETURNING *)
		INSERT INTO outbox_queue (id, seq, slot, aggregate, aggregate_id, version, topic, bytes)
		SELECT id, seq, slot, aggregate, aggregate_id, version, topic, octet_length(payload) FROM event`, ids, topics, payloads)
	must(s.T, err)
	return ids
}

// recordOutboxChanges adds triggers that record each claim of an event in the table claims,
// and each event that loses its state published in the table reversals.
func (s *system) recordOutboxChanges() {
	s.Helper()
	_, err := s.ordersDB.Exec(s.Context(), `
		CREATE TABLE claims (event_id uuid);
		CREATE TABLE reversals (event_id uuid);
		CREATE FUNCTION record_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
			INSERT INTO claims SELECT unnest(NEW.events);
			RETURN NULL;
		END $$;
		CREATE TRIGGER record_claim AFTER INSERT ON outbox_claims FOR EACH ROW EXECUTE FUNCTION record_claim();
		CREATE FUNCTION record_reversal() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
			IF TG_TABLE_NAME <> 'outbox_queue' OR EXISTS (SELECT FROM outbox_published WHERE id = NEW.id) THEN
				INSERT INTO reversals VALUES (coalesce(NEW.id, OLD.id));
			END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER record_reversal AFTER UPDATE OR DELETE ON outbox_published FOR EACH ROW EXECUTE FUNCTION record_reversal();
		CREATE TRIGGER record_reversal AFTER INSERT OR UPDATE ON outbox_queue FOR EACH ROW EXECUTE FUNCTION record_reversal()`)
	must(s.T, err)
}

const (
	claimCount    = "SELECT count(*) FROM claims"
	reversalCount = "SELECT count(*) FROM reversals"
)

// wantNothingRefused wants that a relay has counted no refusal, and that no event failed. An event
// that no queue takes is not refused.
func (s *system) wantNothingRefused(relay *service) {
	s.Helper()
	relay.awaitMetric("outbox_refused_total", 0)
	s.wantCount(0, s.ordersDB, 0, failedCount)
}

// wantFailed waits until an event is failed, and wants this code and a reason with these words. It
// returns how often it was refused.
func (s *system) wantFailed(id, code, words string) (refusals int) {
	s.Helper()
	s.awaitCount(s.ordersDB, 1, "SELECT count(*) FROM outbox_status WHERE status = 'failed' AND id = '"+id+"'")
	got := queryValue[string](s, s.ordersDB, "SELECT failure_code || ': ' || failure_reason FROM outbox_status WHERE id = $1", id)
	if !strings.HasPrefix(got, code+": ") || !strings.Contains(got, words) {
		s.Errorf("failed as %q, want %s and %q", got, code, words)
	}
	return queryValue[int](s, s.ordersDB, "SELECT retry_count FROM outbox_status WHERE id = $1", id)
}
