package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// A paused topic has a row in outbox_topics. Claims take none of its events: they halt those that
// are due and in front of others. A halted event has available_at = 'infinity', so no claim reads
// it again. When the pause is over, one halted event is claimed, or a few: the probes. If the
// destination takes one, the topic is resumed: claims make its halted events due, as many as there is
// room for, and delete the row when none is left.
//
// No event stays halted without a row: whoever halts an event has seen or written the row, and a
// claim deletes it, when nothing is halted. If somebody deletes it by hand, the janitor writes it
// again, as resumed. Claims run one after the other.

// AllTopics is the topic that stands for every topic in outbox_topics.
const AllTopics = "*"

// isPausedSQL is true for an event q whose topic is paused: one look into the index for each event.
// With NOT IN, PostgreSQL compares each event with all paused topics if it expects that they do not
// fit into work_mem, for example 150,000. AllPausedSQL is true if every topic is paused.
const (
	isPausedSQL  = `(SELECT true FROM outbox_topics p WHERE p.topic = q.topic AND NOT resumed LIMIT 1) IS NOT NULL`
	AllPausedSQL = `(SELECT true FROM outbox_topics WHERE topic = '` + AllTopics + `' AND NOT resumed LIMIT 1) IS NOT NULL`
)

// claimProbesSQL claims probes of each topic whose pause is over: @limit divided by their number, and
// one of a topic that gives no answer.
//
//   - "ready": topics that give no answer come last, because each of their probes takes a second;
//   - "line": of the halted events those that were tried least, and of these the oldest. One that is
//     not the next event of its aggregate is left out, and one whose aggregate has one in flight.
//     "free": @bytes bound the memory;
//   - takeSQL supersedes their older ones, and claims them;
//   - "moved": no other relay tries the topic now. If this relay dies, one does so 10 s after the
//     next pause. If no event of the topic is free, because relays wait for their answers, a relay
//     looks again after 1 s. So it does if events of the topic are due and not halted yet, which the
//     next full read halts: "due" are the first ones. A topic without such events is resumed.
const claimProbesSQL = `
WITH ready AS MATERIALIZED (
  SELECT topic, reason LIKE 'no answer%' AS silent FROM outbox_topics
  WHERE NOT resumed AND until <= now() AND NOT ` + AllPausedSQL + `
  ORDER BY silent, until LIMIT @limit FOR UPDATE SKIP LOCKED
), line AS MATERIALIZED (
  SELECT p.*, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM ready t, LATERAL (
    SELECT q.*, ` + nextColumnsSQL + ` FROM (
      SELECT * FROM outbox_queue WHERE topic = t.topic AND halted AND id NOT IN ` + claimedIDsSQL + `
      ORDER BY topic, retry_count, seq) q` + nextSQL + `
    WHERE coalesce(newest.id, oldest.id, q.id) = q.id AND coalesce(oldest.id, q.id) NOT IN ` + claimedIDsSQL + `
    LIMIT CASE WHEN t.silent THEN 1 ELSE greatest(cast(@limit AS int) / (SELECT count(*) FROM ready), 1) END) p
), free AS MATERIALIZED (
  SELECT * FROM line WHERE before < @bytes
), due AS MATERIALIZED (` + dueSQL + ` ORDER BY available_at, seq LIMIT @halt
), ` + takeSQL + `, moved AS (
  UPDATE outbox_topics t SET
    resumed = (SELECT true FROM outbox_queue WHERE topic = t.topic AND halted LIMIT 1) IS NULL AND t.topic NOT IN (SELECT topic FROM due),
    until = now() + interval '1 second' * CASE WHEN t.topic IN (
      SELECT topic FROM free WHERE id = ANY ((SELECT events FROM claimed)::uuid[])) THEN pause + 10 ELSE 1 END
  FROM ready r WHERE t.topic = r.topic
)
SELECT EXISTS (SELECT FROM claimed) AS claimed, (SELECT count(*) FROM done) AS superseded`

// nextProbeSQL is in how many seconds a topic is to be tried, or NULL.
const nextProbeSQL = `(SELECT extract(epoch FROM min(until) - now()) FROM outbox_topics
  WHERE NOT resumed AND until < 'infinity' AND NOT ` + AllPausedSQL + `)::float8 AS next_probe`

// ClaimProbes leases at most limit probes of topics whose pause is over.
func (s *Store) ClaimProbes(ctx context.Context, worker string, limit int, lease time.Duration) (Claim, error) {
	claim := Claim{Token: uuid.New()}
	claimed := false
	err := s.together(ctx,
		statement{doing: "waiting for other claims", sql: ClaimLockSQL},
		statement{
			"claiming probes", claimProbesSQL,
			args{
				"token": claim.Token, "worker": worker, "lease": lease.Seconds(), "limit": limit, "most": maxSupersede,
				"bytes": MaxClaimBytes, "floor": s.floor.last(), "halt": maxHalt,
			},
			rowInto(&claimed, &claim.Superseded),
		},
		statement{"planning the next probe", "SELECT " + nextProbeSQL, nil, rowInto(&claim.NextProbe)}, // it sees what was moved
	)
	return s.finishClaim(ctx, claim, claimed, err)
}

// lockTopicsSQL makes settlements that change topics run one after the other. One may pause a and
// resume b while another one does the reverse: without this lock they could deadlock.
const lockTopicsSQL = `SELECT pg_advisory_xact_lock(hashtextextended('topics ' || 'outbox_topics'::regclass::oid, 0))`

// pauseSQL pauses topics. A pause gets longer only if a probe has failed: many events fail
// together, and then one pause must not become ten. A topic that an operator has paused stays as it
// is.
const pauseSQL = `
INSERT INTO outbox_topics AS t (topic, until, pause, reason)
SELECT key, now() + cast(@first AS float8) * interval '1 second', @first, value
FROM json_each_text(cast(cast(@topics AS text) AS json)) ORDER BY key COLLATE "C"
ON CONFLICT (topic) DO UPDATE SET
  (since, pause, until, reason, operator, resumed) = (
    SELECT CASE WHEN t.resumed THEN clock_timestamp() ELSE t.since END, pause, now() + pause * interval '1 second',
           excluded.reason, NULL, false
    FROM (SELECT CASE WHEN t.resumed THEN excluded.pause ELSE least(2 * t.pause, cast(@longest AS float8)) END AS pause) next)
WHERE t.resumed OR t.operator IS NULL AND cast(@longer AS boolean)`

// probeAgainSQL lets another event of topics be tried at once. The pauses stay as long as they are.
const probeAgainSQL = `
UPDATE outbox_topics SET until = now()
WHERE topic = ANY (ARRAY(SELECT json_array_elements_text(cast(cast(@topics AS text) AS json))))
  AND operator IS NULL AND NOT resumed`

// resumeSQL ends the pauses of topics, unless an operator has paused them.
const resumeSQL = `
UPDATE outbox_topics SET resumed = true
WHERE topic = ANY (ARRAY(SELECT json_array_elements_text(cast(cast(@topics AS text) AS json))))
  AND operator IS NULL AND NOT resumed`

// The failure_code of an event that has had no answer, that was returned, or that has ended a
// session.
const (
	CodeNoAnswer      = "no_answer"
	CodeUnroutable    = "unroutable"
	CodeSessionClosed = "session_closed"
)

func jsonText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("outbox: %T cannot be JSON: %v", value, err)) // none of the types of this package
	}
	return string(text)
}
