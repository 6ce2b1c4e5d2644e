package browser

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/contract"
)

const refused, created = "refused", "order.created"

// failed is a failed event of order-service.
type failed struct {
	id     uuid.UUID
	reason string // what the broker said
	body   map[string]any
}

// failEvents inserts n events that a queue has refused, each of another order, and returns them.
func (s *site) failEvents(n int) (events []failed) {
	s.Helper()
	for range n {
		id, err := uuid.NewV7()
		s.must(err)
		order, err := uuid.NewV7()
		s.must(err)
		events = append(events, failed{id: id, reason: "a queue refused it", body: s.payload(order)})
	}
	s.insert(events...)
	return events
}

// payload returns the payload of the event of a new order.
func (s *site) payload(order uuid.UUID) (body map[string]any) {
	s.Helper()
	text, err := contract.Events.ReadFile("order.created.json")
	s.must(err)
	s.must(json.Unmarshal(text, &body))
	body["order_id"] = order.String()
	return body
}

func (s *site) insert(events ...failed) {
	s.Helper()
	var ids, bodies, reasons []string
	for _, e := range events {
		body, err := json.Marshal(e.body)
		s.must(err)
		ids, bodies, reasons = append(ids, e.id.String()), append(bodies, string(body)), append(reasons, e.reason)
	}
	_, err := s.orders.db.Exec(s.Context(), `
		WITH event AS (
			INSERT INTO outbox_events (id, slot, aggregate, aggregate_id, version, topic, payload, content_type)
			SELECT id, current, 'order', payload::jsonb->>'order_id', 1, $1, convert_to(payload::jsonb::text, 'UTF8'), 'application/json'
			FROM unnest($2::uuid[], $3::text[]) AS e (id, payload), outbox_ring
			RETURNING *)
		INSERT INTO outbox_queue (id, seq, slot, aggregate, aggregate_id, version, topic, bytes,
		                          available_at, retry_count, failure_code, failure_reason, failed_at)
		SELECT id, seq, slot, aggregate, aggregate_id, version, topic, octet_length(payload),
		       'infinity', 20, $4, reason, now()
		FROM event JOIN unnest($2::uuid[], $5::text[]) AS f (id, reason) USING (id)`,
		created, ids, bodies, refused, reasons)
	s.must(err)
}

// failures counts the failed events.
func (s *site) failures() (n int) {
	s.Helper()
	s.must(s.orders.db.QueryRow(s.Context(), "SELECT count(*) FROM outbox_queue WHERE failed_at IS NOT NULL").Scan(&n))
	return n
}

func texts(events []failed) string {
	var all []string
	for _, e := range events {
		all = append(all, e.id.String())
	}
	return strings.Join(all, " ")
}
