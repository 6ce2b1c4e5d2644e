-- The tables of 0.1.0. schema.sql has those of today, and says why each is as it is: a test
-- compares it with what all migrations make.

-- +goose Up
CREATE TABLE outbox_ring (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  current smallint NOT NULL DEFAULT 0 CHECK (current BETWEEN 0 AND 7),
  since   timestamptz NOT NULL DEFAULT now(),
  moved   timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO outbox_ring DEFAULT VALUES;
CREATE TABLE outbox_events (
  id           uuid NOT NULL,
  seq          bigint GENERATED ALWAYS AS IDENTITY,
  slot         smallint NOT NULL,
  version      int CHECK (version > 0),
  aggregate    text COLLATE "C" CHECK (octet_length(aggregate) BETWEEN 1 AND 255),
  aggregate_id text COLLATE "C" CHECK (octet_length(aggregate_id) BETWEEN 1 AND 255),
  topic        text COLLATE "C" NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
  payload      bytea NOT NULL CHECK (octet_length(payload) <= 262144),
  content_type text NOT NULL CHECK (octet_length(content_type) <= 255),
  headers      json CHECK (octet_length(headers::text) <= 65536),
  traceparent  text NOT NULL DEFAULT '' CHECK (octet_length(traceparent) <= 64),
  created_at   timestamptz NOT NULL DEFAULT now(),
  CHECK (num_nulls(aggregate, aggregate_id, version) IN (0, 3))
) PARTITION BY LIST (slot);
CREATE TABLE outbox_published (
  id           uuid NOT NULL,
  slot         smallint NOT NULL,
  retry_count  int NOT NULL DEFAULT 0,
  published_at timestamptz NOT NULL DEFAULT now()
) PARTITION BY LIST (slot);
CREATE INDEX outbox_events_history ON outbox_events (aggregate, aggregate_id, version);
CREATE INDEX outbox_published_time ON outbox_published USING brin (published_at) WITH (autosummarize = on);
CREATE TABLE outbox_events_0 PARTITION OF outbox_events (PRIMARY KEY (id)) FOR VALUES IN (0);
CREATE TABLE outbox_events_1 PARTITION OF outbox_events (PRIMARY KEY (id)) FOR VALUES IN (1);
CREATE TABLE outbox_events_2 PARTITION OF outbox_events (PRIMARY KEY (id)) FOR VALUES IN (2);
CREATE TABLE outbox_events_3 PARTITION OF outbox_events (PRIMARY KEY (id)) FOR VALUES IN (3);
CREATE TABLE outbox_events_4 PARTITION OF outbox_events (PRIMARY KEY (id)) FOR VALUES IN (4);
CREATE TABLE outbox_events_5 PARTITION OF outbox_events (PRIMARY KEY (id)) FOR VALUES IN (5);
CREATE TABLE outbox_events_6 PARTITION OF outbox_events (PRIMARY KEY (id)) FOR VALUES IN (6);
CREATE TABLE outbox_events_7 PARTITION OF outbox_events (PRIMARY KEY (id)) FOR VALUES IN (7);
CREATE TABLE outbox_published_0 PARTITION OF outbox_published (PRIMARY KEY (id)) FOR VALUES IN (0);
CREATE TABLE outbox_published_1 PARTITION OF outbox_published (PRIMARY KEY (id)) FOR VALUES IN (1);
CREATE TABLE outbox_published_2 PARTITION OF outbox_published (PRIMARY KEY (id)) FOR VALUES IN (2);
CREATE TABLE outbox_published_3 PARTITION OF outbox_published (PRIMARY KEY (id)) FOR VALUES IN (3);
CREATE TABLE outbox_published_4 PARTITION OF outbox_published (PRIMARY KEY (id)) FOR VALUES IN (4);
CREATE TABLE outbox_published_5 PARTITION OF outbox_published (PRIMARY KEY (id)) FOR VALUES IN (5);
CREATE TABLE outbox_published_6 PARTITION OF outbox_published (PRIMARY KEY (id)) FOR VALUES IN (6);
CREATE TABLE outbox_published_7 PARTITION OF outbox_published (PRIMARY KEY (id)) FOR VALUES IN (7);
CREATE TABLE outbox_queue (
  id             uuid PRIMARY KEY,
  seq            bigint NOT NULL,
  slot           smallint NOT NULL,
  version        int,
  aggregate      text COLLATE "C",
  aggregate_id   text COLLATE "C",
  topic          text COLLATE "C" NOT NULL,
  bytes          int NOT NULL,
  available_at   timestamptz NOT NULL DEFAULT now(),
  supersedes     boolean NOT NULL DEFAULT false,
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
CREATE INDEX outbox_queue_refused ON outbox_queue (topic, id) WHERE refused_since IS NOT NULL AND failed_at IS NULL;
CREATE INDEX outbox_queue_failed ON outbox_queue (id) WHERE failed_at IS NOT NULL;
CREATE INDEX outbox_queue_failures ON outbox_queue (coalesce(failure_code, ''), topic, failed_at, id)
  INCLUDE (failure_code) WHERE failed_at IS NOT NULL;
CREATE TABLE outbox_claims (
  token  uuid PRIMARY KEY,
  worker text NOT NULL,
  until  timestamptz NOT NULL,
  events uuid[] NOT NULL
);
CREATE TABLE outbox_topics (
  topic    text COLLATE "C" PRIMARY KEY,
  since    timestamptz NOT NULL DEFAULT now(),
  until    timestamptz NOT NULL,
  pause    float8 NOT NULL,
  reason   text NOT NULL CHECK (octet_length(reason) <= 1024),
  operator text CHECK (octet_length(operator) BETWEEN 1 AND 200),
  resumed  boolean NOT NULL DEFAULT false
);
CREATE TABLE outbox_discarded (
  id             uuid PRIMARY KEY,
  slot           smallint NOT NULL,
  discarded_at   timestamptz NOT NULL DEFAULT now(),
  superseded     boolean NOT NULL DEFAULT false,
  failed_at      timestamptz,
  retry_count    int NOT NULL,
  failure_code   text,
  failure_reason text
);
-- For the janitor: the events of the slot that it empties.
CREATE INDEX outbox_discarded_slot ON outbox_discarded (slot, id);
ALTER TABLE outbox_queue SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE outbox_claims SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0
);
-- +goose StatementBegin
CREATE FUNCTION outbox_text(payload bytea) RETURNS text IMMUTABLE STRICT LANGUAGE plpgsql
AS $$ BEGIN
  RETURN convert_from(payload, 'UTF8');
EXCEPTION WHEN OTHERS THEN
  RETURN '\x' || encode(payload, 'hex');
END $$;
-- +goose StatementEnd
CREATE VIEW outbox_status AS
SELECT e.id, e.seq, e.aggregate, e.aggregate_id, e.version, e.topic, outbox_text(e.payload) AS payload,
       e.content_type, e.headers, e.traceparent, 'published'::text AS status, p.retry_count,
       NULL::timestamptz AS available_at, NULL::uuid AS lease_token, NULL::text AS locked_by,
       NULL::text AS failure_code, NULL::text AS failure_reason, e.created_at, p.published_at, NULL::timestamptz AS failed_at
FROM outbox_published p JOIN outbox_events e USING (id, slot)
UNION ALL
SELECT e.id, e.seq, e.aggregate, e.aggregate_id, e.version, e.topic, outbox_text(e.payload), e.content_type, e.headers,
       e.traceparent, CASE WHEN d.superseded THEN 'superseded' ELSE 'discarded' END, d.retry_count, NULL, NULL, NULL,
       d.failure_code, d.failure_reason, e.created_at, NULL, d.failed_at
FROM outbox_discarded d JOIN outbox_events e USING (id, slot)
WHERE NOT EXISTS (SELECT FROM outbox_published p WHERE p.id = d.id)
UNION ALL
SELECT q.id, q.seq, q.aggregate, q.aggregate_id, q.version, q.topic, outbox_text(e.payload), e.content_type, e.headers,
       e.traceparent, 'failed', q.retry_count, q.available_at, NULL, NULL, q.failure_code, q.failure_reason, e.created_at, NULL, q.failed_at
FROM outbox_queue q LEFT JOIN outbox_events e USING (id, slot)
WHERE q.failed_at IS NOT NULL
UNION ALL
SELECT q.id, q.seq, q.aggregate, q.aggregate_id, q.version, q.topic, outbox_text(e.payload), e.content_type, e.headers,
       e.traceparent, CASE WHEN c.token IS NULL THEN 'pending' ELSE 'in_progress' END, q.retry_count,
       coalesce(c.until, q.available_at), c.token, c.worker, q.failure_code, q.failure_reason, e.created_at, NULL, NULL
FROM outbox_queue q LEFT JOIN outbox_events e USING (id, slot)
LEFT JOIN (SELECT token, worker, until, unnest(events) AS id FROM outbox_claims WHERE until > now()) c
       ON c.id = q.id AND q.available_at <= now()
WHERE q.failed_at IS NULL;
CREATE TABLE operator_decisions (
  id          uuid PRIMARY KEY,
  decision    uuid NOT NULL,
  at          timestamptz NOT NULL DEFAULT now(),
  operator    text NOT NULL CHECK (octet_length(operator) BETWEEN 1 AND 200),
  via         text NOT NULL CHECK (via IN ('cli', 'page')),
  action      text NOT NULL CHECK (action IN ('replay', 'discard', 'republish', 'pause', 'resume', 'find')),
  filter      text NOT NULL CHECK (octet_length(filter) BETWEEN 1 AND 4096),
  items       text[] NOT NULL CHECK (cardinality(items) > 0 OR action = 'find'),
  chosen      int NOT NULL GENERATED ALWAYS AS (cardinality(items)) STORED,
  finished_at timestamptz,
  done        int CHECK (done BETWEEN 0 AND chosen),
  CHECK ((finished_at IS NULL) = (done IS NULL))
);
CREATE INDEX operator_decisions_age ON operator_decisions (at);
CREATE INDEX operator_decisions_decision ON operator_decisions (decision, id);
CREATE INDEX operator_decisions_items ON operator_decisions USING gin (items) WITH (fastupdate = off);

-- +goose Down
DROP TABLE operator_decisions;
DROP VIEW outbox_status;
DROP FUNCTION outbox_text(bytea);
DROP TABLE outbox_done, outbox_topics, outbox_claims, outbox_queue, outbox_events;
