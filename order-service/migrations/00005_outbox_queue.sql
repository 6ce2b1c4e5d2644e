-- +goose Up
-- Splits the outbox into a log and a queue. Rows of the log are only inserted. An event that is
-- still to publish has a narrow row in the queue, which is deleted when it is done. Before, each
-- event updated its wide row and all indexes twice, and that was the largest part of its cost.
--
-- Stop the relays and the API first, or accept that their statements fail: from now on the old
-- program gets an error from each statement on the outbox. It loses nothing. If an old relay has
-- published an event and can no longer mark it, the event is published again after its lease.
LOCK TABLE outbox_events IN ACCESS EXCLUSIVE MODE;

-- One row for each event that is neither published nor discarded, inserted together with the event.
-- While the row exists, the later events of its order are blocked.
CREATE TABLE outbox_queue (
  id                uuid PRIMARY KEY, -- of outbox_events. A foreign key would cost a lookup
  seq               bigint NOT NULL,
  aggregate_type    text NOT NULL,
  aggregate_id      uuid NOT NULL,
  aggregate_version int NOT NULL,
  event_key         event_key NOT NULL,
  bytes             int NOT NULL, -- of the payload: a claim sums them without reading payloads
  -- When the event is due. 'infinity' means that it has failed, or is parked: it waits for a route,
  -- or for an older event of its order. The transaction that deletes the older event makes the next
  -- one due. PostgreSQL before 17 cannot subtract 'infinity'.
  available_at      timestamptz NOT NULL DEFAULT now(),
  -- Attempts that failed because of this event. Outages do not count.
  retry_count       int NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
  failure_code      text CHECK (failure_code IN ('unroutable', 'refused', 'channel_closed', 'too_large', 'bad_key', 'bad_headers')),
  failure_reason    text CHECK (octet_length(failure_reason) <= 1024),
  failed_at         timestamptz, -- until somebody replays or discards the event
  CHECK (failed_at IS NULL OR available_at = 'infinity'), -- the claim checks only available_at
  UNIQUE (aggregate_type, aggregate_id, aggregate_version) -- finds the oldest event of an order
);

-- For the claim: the due events in order.
CREATE INDEX outbox_queue_due ON outbox_queue (available_at, seq) WHERE available_at < 'infinity';

-- For a transaction that deletes an event: finds the next parked event of the order. Usually it is
-- empty.
CREATE INDEX outbox_queue_parked ON outbox_queue (aggregate_type, aggregate_id, aggregate_version)
  WHERE available_at = 'infinity' AND failed_at IS NULL AND failure_code IS DISTINCT FROM 'unroutable';

-- For the operators, and for the search for the probe of a key. Usually both are empty.
CREATE INDEX outbox_queue_failed ON outbox_queue (id) WHERE failed_at IS NOT NULL;
CREATE INDEX outbox_queue_unroutable ON outbox_queue (event_key, available_at, seq)
  WHERE failure_code = 'unroutable' AND failed_at IS NULL;

-- The events that relays work on. A claim inserts one row here and changes no event.
CREATE TABLE outbox_claims (
  token  uuid PRIMARY KEY, -- each claim has a new one; it fences a stale holder
  worker text NOT NULL, -- for people
  until  timestamptz NOT NULL, -- then another claim may take the events
  events uuid[] NOT NULL
);

-- The broker has confirmed these events.
CREATE TABLE outbox_published (
  id           uuid PRIMARY KEY,
  retry_count  int NOT NULL DEFAULT 0,
  published_at timestamptz NOT NULL DEFAULT now()
);

-- An operator has discarded these events.
CREATE TABLE outbox_discarded (
  id             uuid PRIMARY KEY,
  discarded_at   timestamptz NOT NULL DEFAULT now(),
  failed_at      timestamptz NOT NULL,
  retry_count    int NOT NULL,
  failure_code   text,
  failure_reason text
);

-- All rows of these two are deleted soon. So autovacuum starts at a number of dead rows, and not
-- at a share of the table.
ALTER TABLE outbox_queue SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE outbox_claims SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0
);

-- Parked events become due. The next claims park those again that still have to wait.
INSERT INTO outbox_queue (id, seq, aggregate_type, aggregate_id, aggregate_version, event_key, bytes,
                          available_at, retry_count, failure_code, failure_reason, failed_at)
SELECT id, seq, aggregate_type, aggregate_id, aggregate_version, event_key, octet_length(payload::text),
       CASE WHEN status = 'failed' OR failure_code = 'unroutable' AND available_at = 'infinity' THEN 'infinity'
            WHEN status = 'in_progress' OR available_at = 'infinity' THEN now()
            ELSE available_at END,
       retry_count, failure_code, failure_reason, failed_at
FROM outbox_events WHERE status IN ('pending', 'in_progress', 'failed')
ORDER BY seq;

INSERT INTO outbox_claims (token, worker, until, events)
SELECT lease_token, min(locked_by), max(available_at), array_agg(id ORDER BY seq)
FROM outbox_events WHERE status = 'in_progress'
GROUP BY lease_token;

INSERT INTO outbox_published (id, retry_count, published_at)
SELECT id, retry_count, published_at FROM outbox_events WHERE status = 'published';

-- The old table does not have the time of the discard.
INSERT INTO outbox_discarded (id, discarded_at, failed_at, retry_count, failure_code, failure_reason)
SELECT id, failed_at, failed_at, retry_count, failure_code, failure_reason
FROM outbox_events WHERE status = 'discarded';

-- This also drops the indexes and CHECKs of these columns.
ALTER TABLE outbox_events
  DROP COLUMN status, DROP COLUMN retry_count, DROP COLUMN available_at, DROP COLUMN lease_token,
  DROP COLUMN locked_by, DROP COLUMN failure_code, DROP COLUMN failure_reason,
  DROP COLUMN published_at, DROP COLUMN failed_at;
ALTER TABLE outbox_events RESET (
  autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay
);

-- Everything about an event in one row, for people and for rare queries. It has a part for each
-- status, so a query for one status reads only the tables of that status. If an event is both
-- published and discarded, it is published: a confirm is a fact.
CREATE VIEW outbox_status AS
SELECT e.id, e.seq, e.aggregate_type, e.aggregate_id, e.aggregate_version, e.event_key, e.payload, e.traceparent,
       'published'::text AS status, p.retry_count, NULL::timestamptz AS available_at,
       NULL::uuid AS lease_token, NULL::text AS locked_by, NULL::text AS failure_code, NULL::text AS failure_reason,
       e.created_at, p.published_at, NULL::timestamptz AS failed_at
FROM outbox_published p JOIN outbox_events e USING (id)
UNION ALL
SELECT e.id, e.seq, e.aggregate_type, e.aggregate_id, e.aggregate_version, e.event_key, e.payload, e.traceparent,
       'discarded', d.retry_count, NULL, NULL, NULL, d.failure_code, d.failure_reason, e.created_at, NULL, d.failed_at
FROM outbox_discarded d JOIN outbox_events e USING (id)
WHERE NOT EXISTS (SELECT FROM outbox_published p WHERE p.id = d.id)
UNION ALL
SELECT e.id, e.seq, e.aggregate_type, e.aggregate_id, e.aggregate_version, e.event_key, e.payload, e.traceparent,
       'failed', q.retry_count, q.available_at, NULL, NULL, q.failure_code, q.failure_reason, e.created_at, NULL, q.failed_at
FROM outbox_queue q JOIN outbox_events e USING (id)
WHERE q.failed_at IS NOT NULL
UNION ALL
SELECT e.id, e.seq, e.aggregate_type, e.aggregate_id, e.aggregate_version, e.event_key, e.payload, e.traceparent,
       CASE WHEN c.token IS NULL THEN 'pending' ELSE 'in_progress' END, q.retry_count, coalesce(c.until, q.available_at),
       c.token, c.worker, q.failure_code, q.failure_reason, e.created_at, NULL, NULL
FROM outbox_queue q JOIN outbox_events e USING (id)
LEFT JOIN (SELECT token, worker, until, unnest(events) AS id FROM outbox_claims WHERE until > now()) c
       ON c.id = e.id AND q.available_at <= now() -- if it is not due, its holder has rescheduled it
WHERE q.failed_at IS NULL;

-- +goose Down
LOCK TABLE outbox_events, outbox_queue, outbox_claims, outbox_published, outbox_discarded IN ACCESS EXCLUSIVE MODE;

ALTER TABLE outbox_events
  ADD COLUMN status text NOT NULL DEFAULT 'pending'
             CHECK (status IN ('pending', 'in_progress', 'published', 'failed', 'discarded')),
  ADD COLUMN retry_count int NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
  ADD COLUMN available_at timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN lease_token uuid,
  ADD COLUMN locked_by text,
  ADD COLUMN failure_code text
             CHECK (failure_code IN ('unroutable', 'refused', 'channel_closed', 'too_large', 'bad_key', 'bad_headers')),
  ADD COLUMN failure_reason text CHECK (octet_length(failure_reason) <= 1024),
  ADD COLUMN published_at timestamptz,
  ADD COLUMN failed_at timestamptz;

-- The old janitor parks the events again that have to wait.
UPDATE outbox_events e
SET status = s.status, retry_count = s.retry_count, lease_token = s.lease_token, locked_by = s.locked_by,
    available_at = CASE WHEN s.status IN ('published', 'discarded') THEN now()
                        WHEN s.available_at = 'infinity' AND s.status = 'pending'
                             AND s.failure_code IS DISTINCT FROM 'unroutable' THEN now()
                        ELSE s.available_at END,
    failure_code = s.failure_code, failure_reason = s.failure_reason,
    published_at = s.published_at, failed_at = s.failed_at
FROM outbox_status s WHERE s.id = e.id;

DROP VIEW outbox_status;
DROP TABLE outbox_queue, outbox_claims, outbox_published, outbox_discarded;

ALTER TABLE outbox_events
  ADD CHECK ((status = 'in_progress') = (lease_token IS NOT NULL)),
  ADD CHECK ((status = 'in_progress') = (locked_by IS NOT NULL)),
  ADD CHECK ((status = 'published') = (published_at IS NOT NULL)),
  ADD CHECK ((status IN ('failed', 'discarded')) = (failed_at IS NOT NULL));
ALTER TABLE outbox_events SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX outbox_events_due ON outbox_events (available_at, seq) WHERE status IN ('pending', 'in_progress');
CREATE INDEX outbox_events_failed ON outbox_events (id) WHERE status = 'failed';
CREATE INDEX outbox_events_unroutable ON outbox_events (event_key, available_at, seq)
  WHERE status = 'pending' AND failure_code = 'unroutable';
