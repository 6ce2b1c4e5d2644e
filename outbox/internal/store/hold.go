package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// holdSQL claims events for an operator: those that wait because a topic is paused, and that are in
// no claim. A claim whose lease has ended is in the table only if its holder is writing at this moment.
const holdSQL = `
INSERT INTO outbox_claims (token, worker, until, events)
SELECT cast(@token AS uuid), @worker, clock_timestamp() + interval '30 seconds', array_agg(id) FROM outbox_queue
WHERE id = ANY (` + idsSQL + `) AND failed_at IS NULL AND (halted OR ` + AllPausedSQL + `) AND id NOT IN ` + claimedIDsSQL + `
HAVING count(*) > 0`

// Hold claims those of the events for an operator that wait because a topic is paused, so that no relay
// can claim them. It has its own transaction, as a claim of a relay has: other claims wait for it, and
// it waits for no row and no standby.
func (s *Store) Hold(ctx context.Context, operator string, ids []uuid.UUID) (token uuid.UUID, err error) {
	token = uuid.New()
	err = s.together(ctx,
		statement{doing: "waiting for claims", sql: ClaimLockSQL},
		statement{doing: "ending claims", sql: expireSQL},
		statement{"holding", holdSQL, args{"token": token, "worker": "operator " + operator, "ids": IDs(ids)}, nil},
	)
	if err != nil {
		return uuid.Nil, fmt.Errorf("holding events of the outbox: %w", err)
	}
	return token, nil
}

// HeldSQL selects the events of a claim, and locks the claim until the transaction ends.
const HeldSQL = `
SELECT unnest(events) FROM (SELECT events FROM outbox_claims WHERE token = cast(@token AS uuid) FOR UPDATE) c`

// LetGo ends the claim of an operator. If that fails, its lease ends soon.
func (s *Store) LetGo(ctx context.Context, token uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.together(ctx, statement{doing: "ending the claim", sql: endClaimSQL, args: args{"token": token}})
}
