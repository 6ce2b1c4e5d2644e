package main

import (
	"context"
	"fmt"
	"time"
)

// leadSQL waits until no other session reads. The lock belongs to the session that also runs
// storeSQL. So a reader that loses the lock can store nothing more. When its process is killed,
// PostgreSQL ends the session at once. When the process hangs, idle_session_timeout ends it. So
// publish must be faster than the timeout. PgBouncer must be in session mode.
const leadSQL = `SELECT pg_advisory_lock('journal'::regclass::oid::bigint)`

// sessionSQL sets the timeout. It also keeps the planner from reading the whole table. The planner
// prefers that, because its statistics know neither the newest transactions nor the snapshots.
const sessionSQL = `
SELECT set_config('idle_session_timeout', $1, false), set_config('enable_seqscan', 'off', false)`

// positionSQL also reads the cluster's identifier. If the journal was restored from a dump into
// another cluster, new transactions there may have numbers that the journal counts as published.
const positionSQL = `
SELECT batch, older::text, coalesce(newer::text, ''), seq, cluster,
       (pg_control_system()).system_identifier
FROM journal ORDER BY batch DESC LIMIT 1`

// lead waits until this is the only reader, and continues where the last one has stopped.
func (r *bySnapshot) lead(ctx context.Context, timeout time.Duration) error {
	if _, err := r.db.Exec(ctx, sessionSQL, fmt.Sprint(timeout.Milliseconds())); err != nil {
		return fmt.Errorf("setting up the session: %w", err)
	}
	if _, err := r.db.Exec(ctx, leadSQL); err != nil {
		return fmt.Errorf("waiting for the lock: %w", err)
	}
	return r.load(ctx)
}

func (r *bySnapshot) load(ctx context.Context) error {
	var was, is int64
	err := r.db.QueryRow(ctx, positionSQL).Scan(&r.batch, &r.older, &r.newer, &r.seq, &was, &is)
	if err == nil && was != is {
		err = fmt.Errorf("the journal is from another PostgreSQL cluster (system_identifier %d, "+
			"this is %d): its transaction numbers mean nothing here, and events would be lost; "+
			"stop the writers and adopt the restored events", was, is)
	}
	return err
}

// adoptSQL makes restored events readable in this cluster. Run it before the first writer starts:
// later, nobody can tell restored numbers from new ones. Published events get the number 1, and all
// others get the number of this transaction. The snapshot 2:2: sees only the number 1.
const adoptSQL = `
WITH position AS (SELECT * FROM journal ORDER BY batch DESC LIMIT 1), numbered AS (
  UPDATE events e SET xid = CASE WHEN pg_visible_in_snapshot(e.xid, older)
      OR e.seq <= p.seq AND pg_visible_in_snapshot(e.xid, newer)
    THEN '1'::xid8 ELSE pg_current_xact_id() END
  FROM position p)
INSERT INTO journal (batch, older, seq, events) SELECT batch + 1, '2:2:', 0, 0 FROM position`
