package outbox_test

import (
	"testing"

	"example.com/transactional-outbox/order-service/internal/outbox"
)

// appendLargeSQL commits events of 200 kB. Their text is repetitive, or it is not.
var appendLargeSQL = insertSQL(`
SELECT gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', to_jsonb(
  CASE WHEN ? THEN repeat('a', 200000) ELSE (SELECT string_agg(md5(i::text || n::text), '') FROM generate_series(1, 6250) n) END)
FROM generate_series(1, ?::int) i`, "now()")

// TestAClaimIsBoundedInBytes has many more large events than fit into one claim. PostgreSQL
// compresses repetitive text, but on the wire it is as long as any other.
func TestAClaimIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const events, size = 100, 200_002
	for name, repeated := range map[string]bool{"of repetitive text": true, "of text that is not repetitive": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.exec(appendLargeSQL, repeated, events)
			for left := events; left > 0; {
				n := 0
				for _, e := range f.claim(events).Events {
					n += len(e.Payload)
				}
				if n == 0 || n > outbox.MaxClaimBytes+size {
					t.Fatalf("claimed %d bytes, and %d events of %d bytes are due", n, left, size)
				}
				left -= n / size
			}
		})
	}
}

// TestAClaimOfSmallEventsIsBoundedByItsLimitOnly: the bound in bytes must not make normal batches
// smaller.
func TestAClaimOfSmallEventsIsBoundedByItsLimitOnly(t *testing.T) {
	t.Parallel()
	const largest = 5000 // the maximum of RELAY_BATCH_SIZE
	f := newFixture(t)
	f.exec(insertSQL(`
		SELECT gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', jsonb_build_object('a', repeat('a', 1000))
		FROM generate_series(1, ?::int)`, "now()"), largest)
	if n := len(f.claim(largest).Events); n != largest {
		t.Errorf("claimed %d events, want %d", n, largest)
	}
}
