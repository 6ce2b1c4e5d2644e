package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// toHoldSQL sends the ids before the claim lock is taken. PostgreSQL executes each statement as it
// arrives. If the operator's network failed in the middle of a long one, after the lock, the lock would
// stay until TCP gives up.
const toHoldSQL = `SELECT set_config('outbox.to_hold', @ids, true)`

// holdSQL claims events for an operator: those that wait because a topic is paused, and are in no
// claim. If the lease of a claim has ended and the claim is still there, its holder has locked it.
const holdSQL = `
INSERT INTO outbox_claims (token, worker, until, events)
SELECT cast(@token AS uuid), @worker, clock_timestamp() + interval '30 seconds', array_agg(id) FROM outbox_queue
WHERE id = ANY (cast(current_setting('outbox.to_hold') AS uuid[])) AND failed_at IS NULL AND (halted OR ` + AllPausedSQL + `) AND id NOT IN ` + claimedIDsSQL + `
HAVING count(*) > 0`

// Hold claims events for an operator, so that no relay claims them: those that wait because a topic
// is paused. It is a transaction like that of a relay's claim: other claims wait for it, and it
// waits for no row and for no standby. After an error the claim may be committed: let it go.
func (s *Store) Hold(ctx context.Context, operator string, ids []uuid.UUID) (token uuid.UUID, err error) {
	token = uuid.New()
	err = s.together(ctx,
		statement{"naming the events", toHoldSQL, args{"ids": IDs(ids)}, nil},
		statement{doing: "waiting for claims", sql: ClaimLockSQL},
		statement{doing: "ending claims", sql: expireSQL},
		statement{"holding", holdSQL, args{"token": token, "worker": "operator " + operator}, nil},
	)
	if err != nil {
		err = fmt.Errorf("holding events of the outbox: %w", err)
	}
	return token, err
}

// HeldSQL selects the events of a claim, and locks the claim until the transaction ends.
const HeldSQL = `
SELECT unnest(events) FROM (SELECT events FROM outbox_claims WHERE token = cast(@token AS uuid) FOR UPDATE) c`

// LetGo ends a claim, even if ctx has ended. If that fails, its lease ends it.
func (s *Store) LetGo(ctx context.Context, token uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = s.Settle(ctx, Settlement{Token: token, End: true})
}
