-- Plain tables replace the ring of eight tables, and outbox_done replaces outbox_published and
-- outbox_discarded. This copies the events that are not done, and those that are done and still in
-- the log. Stop all writers and relays of 0.1.0 first. One that still runs gets errors, and loses
-- its claims.

-- +goose Up
LOCK TABLE outbox_ring, outbox_events, outbox_published, outbox_discarded, outbox_queue, outbox_claims IN ACCESS EXCLUSIVE MODE;
DELETE FROM outbox_claims;
DROP VIEW outbox_status;
ALTER TABLE outbox_events RENAME TO outbox_old_events;
ALTER INDEX outbox_events_history RENAME TO outbox_old_history;
ALTER SEQUENCE outbox_events_seq_seq RENAME TO outbox_old_seq;
-- The checks of the new table get the names of the old ones. PostgreSQL 18 also names NOT NULL, and
-- cannot rename that of a partition which has a name of its own.
-- +goose StatementBegin
DO $$ DECLARE name text; BEGIN
  FOR name IN SELECT conname FROM pg_constraint WHERE conrelid = 'outbox_old_events'::regclass AND contype = 'c' LOOP
    EXECUTE format('ALTER TABLE outbox_old_events RENAME CONSTRAINT %I TO %I', name, 'old_' || name);
  END LOOP;
END $$;
-- +goose StatementEnd
CREATE TABLE outbox_old_queue AS TABLE outbox_queue;
CREATE INDEX ON outbox_old_queue (id);
DROP TABLE outbox_queue;
CREATE TABLE outbox_events (
  id           uuid PRIMARY KEY,
  seq          bigint GENERATED ALWAYS AS IDENTITY,
  version      int CHECK (version > 0),
  aggregate    text COLLATE "C" CHECK (octet_length(aggregate) BETWEEN 1 AND 255),
  aggregate_id text COLLATE "C" CHECK (octet_length(aggregate_id) BETWEEN 1 AND 255),
  topic        text COLLATE "C" NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
  destination  text COLLATE "C" CHECK (octet_length(destination) BETWEEN 1 AND 255),
  payload      bytea NOT NULL CHECK (octet_length(payload) <= 262144),
  content_type text NOT NULL CHECK (octet_length(content_type) <= 255),
  headers      json CHECK (octet_length(headers::text) <= 65536),
  traceparent  text NOT NULL DEFAULT '' CHECK (octet_length(traceparent) <= 64),
  created_at   timestamptz NOT NULL DEFAULT now(),
  CHECK (num_nulls(aggregate, aggregate_id, version) IN (0, 3))
);
CREATE UNIQUE INDEX outbox_events_history ON outbox_events (aggregate, aggregate_id, version);
CREATE TABLE outbox_queue (
  id             uuid PRIMARY KEY,
  seq            bigint NOT NULL,
  version        int,
  aggregate      text COLLATE "C",
  aggregate_id   text COLLATE "C",
  topic          text COLLATE "C" NOT NULL,
  bytes          int NOT NULL,
  available_at   timestamptz NOT NULL DEFAULT now(),
  supersedes     boolean NOT NULL DEFAULT false,
  due_since      timestamptz NOT NULL DEFAULT now(),
  halted         boolean NOT NULL DEFAULT false,
  retry_count    int NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
  refused_since  timestamptz,
  failure_code   text CHECK (octet_length(failure_code) <= 64),
  failure_reason text CHECK (octet_length(failure_reason) <= 1024),
  failed_at      timestamptz,
  CHECK (NOT halted AND failed_at IS NULL OR available_at = 'infinity'),
  CHECK (NOT halted OR failed_at IS NULL),
  UNIQUE (aggregate, aggregate_id, version)
);
CREATE INDEX outbox_queue_due ON outbox_queue (available_at, seq) WHERE available_at < 'infinity';
CREATE INDEX outbox_queue_parked ON outbox_queue (aggregate, aggregate_id, version)
  WHERE available_at = 'infinity' AND failed_at IS NULL AND NOT halted;
CREATE INDEX outbox_queue_supersedes ON outbox_queue (aggregate, aggregate_id, version) WHERE supersedes;
CREATE INDEX outbox_queue_halted ON outbox_queue (topic, retry_count, seq) WHERE halted;
CREATE INDEX outbox_queue_since ON outbox_queue (due_since) WHERE CASE WHEN failed_at IS NULL THEN true END;
CREATE INDEX outbox_queue_refused ON outbox_queue (topic, id) WHERE refused_since IS NOT NULL AND failed_at IS NULL;
CREATE INDEX outbox_queue_failed ON outbox_queue (id) WHERE failed_at IS NOT NULL;
CREATE INDEX outbox_queue_failures ON outbox_queue (coalesce(failure_code, ''), topic, failed_at, id)
  INCLUDE (failure_code) WHERE failed_at IS NOT NULL;
CREATE TABLE outbox_done (
  id             uuid PRIMARY KEY,
  done_at        timestamptz NOT NULL DEFAULT now(),
  retry_count    int NOT NULL,
  status         text COLLATE "C" NOT NULL CHECK (status IN ('published', 'discarded', 'superseded')),
  failed_at      timestamptz,
  failure_code   text,
  failure_reason text
);
CREATE INDEX outbox_done_age ON outbox_done (done_at, id);
CREATE INDEX outbox_done_unsent ON outbox_done (id) WHERE status <> 'published';
ALTER TABLE outbox_events SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE outbox_done SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE outbox_queue SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
-- 0.1.0 allowed an id, and a version of an aggregate, twice in different slots. The event that is
-- not done wins, and then the newer one.
INSERT INTO outbox_events (id, seq, version, aggregate, aggregate_id, topic, payload, content_type, headers, traceparent, created_at)
OVERRIDING SYSTEM VALUE
SELECT e.id, e.seq, e.version, e.aggregate, e.aggregate_id, e.topic, e.payload, e.content_type, e.headers, e.traceparent, e.created_at
FROM outbox_old_events e LEFT JOIN outbox_old_queue q USING (id, slot)
ORDER BY q.id IS NULL, e.seq DESC
ON CONFLICT DO NOTHING;
SELECT setval('outbox_events_seq_seq', last_value, is_called) FROM outbox_old_seq;
-- 0.1.0 did not store when an event was due first. For one that was tried or put aside, it is taken
-- to be when it was appended.
INSERT INTO outbox_queue (id, seq, version, aggregate, aggregate_id, topic, bytes, available_at, supersedes, due_since, halted,
                          retry_count, refused_since, failure_code, failure_reason, failed_at)
SELECT q.id, q.seq, q.version, q.aggregate, q.aggregate_id, q.topic, q.bytes, q.available_at, q.supersedes,
       CASE WHEN q.retry_count = 0 AND q.available_at < 'infinity' THEN q.available_at ELSE coalesce(e.created_at, now()) END,
       q.halted, q.retry_count, q.refused_since, q.failure_code, q.failure_reason, q.failed_at
FROM outbox_old_queue q LEFT JOIN outbox_events e USING (id);
-- The event that is done is the one of the same slot.
INSERT INTO outbox_done (id, done_at, retry_count, status)
SELECT p.id, p.published_at, p.retry_count, 'published'
FROM outbox_published p JOIN outbox_old_events o USING (id, slot) JOIN outbox_events e USING (id, seq)
WHERE NOT EXISTS (SELECT FROM outbox_queue q WHERE q.id = p.id);
INSERT INTO outbox_done (id, done_at, retry_count, status, failed_at, failure_code, failure_reason)
SELECT d.id, d.discarded_at, d.retry_count, CASE WHEN d.superseded THEN 'superseded' ELSE 'discarded' END,
       d.failed_at, d.failure_code, d.failure_reason
FROM outbox_discarded d JOIN outbox_old_events o USING (id, slot) JOIN outbox_events e USING (id, seq)
WHERE NOT EXISTS (SELECT FROM outbox_queue q WHERE q.id = d.id)
ON CONFLICT DO NOTHING;
-- The others have no row that says what became of them. The janitor would never find them.
DELETE FROM outbox_events e
WHERE NOT EXISTS (SELECT FROM outbox_queue q WHERE q.id = e.id) AND NOT EXISTS (SELECT FROM outbox_done d WHERE d.id = e.id);
DROP TABLE outbox_old_events, outbox_old_queue, outbox_published, outbox_discarded, outbox_ring;
CREATE VIEW outbox_status AS
SELECT e.id, e.seq, e.aggregate, e.aggregate_id, e.version, concat_ws('/', e.destination, e.topic) AS topic, outbox_text(e.payload) AS payload,
       e.content_type, e.headers, e.traceparent, d.status, d.retry_count,
       NULL::timestamptz AS available_at, NULL::uuid AS lease_token, NULL::text AS locked_by,
       d.failure_code, d.failure_reason, e.created_at,
       CASE d.status WHEN 'published' THEN d.done_at END AS published_at, d.failed_at
FROM outbox_done d JOIN outbox_events e USING (id)
UNION ALL
SELECT q.id, q.seq, q.aggregate, q.aggregate_id, q.version, q.topic, outbox_text(e.payload), e.content_type, e.headers,
       e.traceparent, 'failed', q.retry_count, q.available_at, NULL, NULL, q.failure_code, q.failure_reason, e.created_at, NULL, q.failed_at
FROM outbox_queue q LEFT JOIN outbox_events e USING (id)
WHERE q.failed_at IS NOT NULL
UNION ALL
SELECT q.id, q.seq, q.aggregate, q.aggregate_id, q.version, q.topic, outbox_text(e.payload), e.content_type, e.headers,
       e.traceparent, CASE WHEN c.token IS NULL THEN 'pending' ELSE 'in_progress' END, q.retry_count,
       coalesce(c.until, q.available_at), c.token, c.worker, q.failure_code, q.failure_reason, e.created_at, NULL, NULL
FROM outbox_queue q LEFT JOIN outbox_events e USING (id)
LEFT JOIN (SELECT token, worker, until, unnest(events) AS id FROM outbox_claims WHERE until > now()) c
       ON c.id = q.id AND q.available_at <= now()
WHERE q.failed_at IS NULL;
ALTER TABLE operator_decisions DROP CONSTRAINT operator_decisions_via_check,
  ADD CONSTRAINT operator_decisions_via_check CHECK (octet_length(via) BETWEEN 1 AND 20);

-- +goose Down
-- There is no way back to the ring. The Down of 00001, after this one, drops all tables.
