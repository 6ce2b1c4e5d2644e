package main

import (
	"context"
	"strings"
)

// oldestSQL is true for an event if no older event of its order is in the outbox.
const oldestSQL = `
    AND NOT EXISTS (
      SELECT FROM outbox older WHERE older.order_id = o.order_id AND older.version < o.version)`

// leaseInOrderSQL is the claim of chapter 5 with one more condition.
var leaseInOrderSQL = strings.Replace(leaseSQL, "\n  ORDER BY", oldestSQL+"\n  ORDER BY", 1)

func (r *relay) passInOrder(ctx context.Context, publish publish) (int, error) {
	return r.passWith(ctx, leaseInOrderSQL, publish)
}
