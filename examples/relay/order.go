package main

import "context"

// leaseInOrderSQL has one more condition than leaseSQL: no older event of the same order is in the
// outbox.
const leaseInOrderSQL = `
WITH due AS (
  SELECT id FROM outbox o
  WHERE available_at <= now() AND id NOT IN (SELECT unnest(events) FROM claims)
    AND NOT EXISTS (
      SELECT FROM outbox older WHERE older.order_id = o.order_id AND older.version < o.version)
  ORDER BY seq LIMIT $1
)
INSERT INTO claims (token, until, events)
SELECT $2, clock_timestamp() + $3, array_agg(id) FROM due HAVING count(*) > 0`

func (r *relay) passInOrder(ctx context.Context, publish publish) (int, error) {
	return r.passWith(ctx, leaseInOrderSQL, publish)
}
