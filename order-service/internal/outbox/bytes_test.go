package outbox_test

import (
	"testing"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// largeSQL makes events of 200 kB whose text is repeated, or is not.
const largeSQL = `
INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
SELECT gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', to_jsonb(
  CASE WHEN ? THEN repeat('a', 200000) ELSE (SELECT string_agg(md5(i::text || n::text), '') FROM generate_series(1, 6250) n) END)
FROM generate_series(1, ?::int) i`

// TestAClaimIsBoundedInBytes has many more large events than one claim may hold. What the
// database compresses well is as long on the wire as what it does not.
func TestAClaimIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const events, size = 100, 200_002
	for name, repeated := range map[string]bool{"of text that is repeated": true, "of text that is not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.exec(largeSQL, repeated, events)
			for left := events; left > 0; {
				n := 0
				for _, e := range b.claim(events).Events {
					n += len(e.Payload)
				}
				if n == 0 || n > outbox.MaxClaimBytes+size {
					t.Fatalf("a claim of %d bytes, while %d events of %d are due", n, left, size)
				}
				left -= n / size
			}
		})
	}
}

// TestAClaimOfSmallEventsIsBoundedByTheirNumber alone: nothing else may make batches small.
func TestAClaimOfSmallEventsIsBoundedByTheirNumber(t *testing.T) {
	t.Parallel()
	const largest = 5000 // of RELAY_BATCH_SIZE
	b := newBench(t)
	b.exec(`INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
		SELECT gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', jsonb_build_object('a', repeat('a', 1000))
		FROM generate_series(1, ?::int)`, largest)
	if n := len(b.claim(largest).Events); n != largest {
		t.Errorf("a claim of %d events, want %d", n, largest)
	}
}
