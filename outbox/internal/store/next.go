package store

// The events of an aggregate go out one after the other. Its next event is the newest one that
// supersedes the older ones, if that is due, halted or parked; otherwise it is the oldest one. No
// other event of the aggregate is free.
//
// So a superseding event waits only for an event of its aggregate that is in flight: its older ones
// may be delayed, paused or failed. And an older one is not sent while a newer one is due that
// makes it pointless. A superseding event that is still delayed holds nothing back.
//
// The claim that takes a superseding event ends the older ones. So at most one event of an
// aggregate is in flight, and in the queue it is the oldest of its aggregate. If the older ones
// were ended only when the newer one is published, then its lost answer would let an older one
// follow it.

// nextSQL finds, for an event q that is due or halted, the newest superseding event and the oldest
// one of its aggregate. The first event of an aggregate needs no search for an older one.
// Superseding events have an index of their own. It reads at most 100 of them: those that are
// delayed come first, and there may be thousands. With more than 100 in front, the events go out
// one after the other.
const nextSQL = `
  LEFT JOIN LATERAL (
    SELECT id, available_at FROM (
      SELECT id, available_at, version, failed_at FROM outbox_queue
      WHERE (aggregate, aggregate_id) = (q.aggregate, q.aggregate_id) AND version >= q.version AND supersedes
      ORDER BY version DESC LIMIT 100) newest
    WHERE failed_at IS NULL AND (available_at <= now() OR available_at = 'infinity')
    ORDER BY version DESC LIMIT 1) newest ON true
  LEFT JOIN LATERAL (
    SELECT id, available_at FROM outbox_queue
    WHERE (aggregate, aggregate_id) = (q.aggregate, q.aggregate_id) AND q.version > 1
    ORDER BY version LIMIT 1) oldest ON true`

// nextColumnsSQL are the ids of the next event and of the oldest one, and whether the next one has
// to wait itself.
const nextColumnsSQL = `coalesce(newest.id, oldest.id, q.id) AS next, coalesce(oldest.id, q.id) AS oldest,
         coalesce(newest.available_at, oldest.available_at) > now() AS waits`

// takeSQL claims the "free" events of a statement.
//
//   - "older" are the older events of the aggregates, at most @most. It locks them, and waits for
//     no lock: a claim that waited would stop all others, and could deadlock with an operator who
//     has locked some events and wants more;
//   - "whole" are the free events of which all older ones are locked. Somebody has locked one of
//     the others, for example to replay it, or they have too many. The next claim may take them;
//   - "done" ends the older events, and "recorded" keeps their failures. If such an event is
//     confirmed later, it counts as published;
//   - the lease starts at clock_timestamp(). now() is when the transaction began, before it
//     waited for other claims.
const takeSQL = `older AS MATERIALIZED (
  SELECT q.id AS newer, locked.id AS id, row_number() OVER () AS nth FROM free q,
  LATERAL (
    SELECT id FROM outbox_queue
    WHERE (aggregate, aggregate_id) = (q.aggregate, q.aggregate_id) AND version < q.version AND q.oldest <> q.id
    ORDER BY version LIMIT @most) o
  LEFT JOIN LATERAL (SELECT id FROM outbox_queue WHERE id = o.id FOR UPDATE SKIP LOCKED) locked ON true
  LIMIT @most
), whole AS MATERIALIZED (
  SELECT newer FROM older GROUP BY newer HAVING count(*) = count(id) AND max(nth) < @most
), done AS (
  DELETE FROM outbox_queue WHERE id = ANY (ARRAY(SELECT id FROM older))
  RETURNING *, 'superseded' AS status
), recorded AS (` + RecordSQL + `
), claimed AS (
  INSERT INTO outbox_claims (token, worker, until, events)
  SELECT cast(@token AS uuid), @worker, clock_timestamp() + cast(@lease AS float8) * interval '1 second', array_agg(id)
  FROM free WHERE oldest = id OR id IN (SELECT newer FROM whole)
  HAVING count(*) > 0
  RETURNING events
)`

// RecordSQL records that events are done without being sent, with the failures that they had. They
// come from "done", the DELETE that has removed them from the queue. An event may have a row
// already, if a person has put it into the queue again. That row stays.
const RecordSQL = `
  INSERT INTO outbox_done (id, status, retry_count, failed_at, failure_code, failure_reason)
  SELECT id, status, retry_count, failed_at, failure_code, failure_reason FROM done
  ON CONFLICT DO NOTHING`
