-- The tables of the outbox, as Migrate makes them. Read them from top to bottom.
--
--   outbox_events      the log: every event, inserted with the business data. Its contents never
--                      change; the janitor moves or removes it
--   outbox_queue       what is not done: one narrow row for each event, deleted when it is done
--   outbox_claims      the events that a relay works on, and until when
--   outbox_topics      the topics that are paused, and why
--   outbox_published   the events that the destination has taken
--   outbox_discarded   the events that are done without being sent: an operator discarded them, or
--                      a newer event of the aggregate superseded them
--   outbox_ring        where new events are written
--   outbox_status      a view: one row for each event, with its status
--   operator_decisions who has decided what about which events
--
-- An event waits if and only if it has a row in outbox_queue.
--
-- Names and ids are compared byte by byte (COLLATE "C"). It is faster, and an upgrade of the operating
-- system, which may change the order of other collations, breaks no index.

-- The log and outbox_published are a ring of eight tables each, one for each slot. New events go to
-- the current slot. When the current slot is older than a sixth of the retention, the janitor empties
-- the next one by TRUNCATE and makes it current. So old events cost no DELETE, no vacuum and no DDL.
CREATE TABLE outbox_ring (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one), -- the table has one row
  current smallint NOT NULL DEFAULT 0 CHECK (current BETWEEN 0 AND 7),
  since   timestamptz NOT NULL DEFAULT now(),
  -- When the janitor last moved an event to the current slot. Whoever reads with an older snapshot
  -- would look for the event in its old slot, so that one is emptied a little later.
  moved   timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO outbox_ring DEFAULT VALUES;

CREATE TABLE outbox_events (
  id           uuid NOT NULL, -- the message's id, at each delivery the same
  -- Breaks ties in the order of claims. It is no cursor: transactions do not commit in the order of
  -- their numbers.
  seq          bigint GENERATED ALWAYS AS IDENTITY,
  slot         smallint NOT NULL,
  version      int CHECK (version > 0),
  -- What the event is about, for example order 0198c0de…. All three are NULL for an event without
  -- an aggregate: it has no order.
  aggregate    text COLLATE "C" CHECK (octet_length(aggregate) BETWEEN 1 AND 255),
  aggregate_id text COLLATE "C" CHECK (octet_length(aggregate_id) BETWEEN 1 AND 255),
  topic        text COLLATE "C" NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
  payload      bytea NOT NULL CHECK (octet_length(payload) <= 262144),
  content_type text NOT NULL CHECK (octet_length(content_type) <= 255),
  headers      json CHECK (octet_length(headers::text) <= 65536), -- NULL: none
  traceparent  text NOT NULL DEFAULT '' CHECK (octet_length(traceparent) <= 64),
  created_at   timestamptz NOT NULL DEFAULT now(),
  CHECK (num_nulls(aggregate, aggregate_id, version) IN (0, 3))
) PARTITION BY LIST (slot);

CREATE TABLE outbox_published (
  id           uuid NOT NULL,
  slot         smallint NOT NULL, -- of the event in the log
  retry_count  int NOT NULL DEFAULT 0,
  published_at timestamptz NOT NULL DEFAULT now()
) PARTITION BY LIST (slot);

-- For the events of an aggregate, in their order.
CREATE INDEX outbox_events_history ON outbox_events (aggregate, aggregate_id, version);
-- For publishing again what was published in a range of time. A BRIN is small and costs an INSERT
-- almost nothing.
CREATE INDEX outbox_published_time ON outbox_published USING brin (published_at) WITH (autosummarize = on);

-- The primary key of each slot is the id alone. A key of (slot, id) would be larger, and would not
-- help to find an id.
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

-- One row for each event that is not done. While the row exists, the later events of its aggregate
-- wait, unless they supersede it.
CREATE TABLE outbox_queue (
  id             uuid PRIMARY KEY, -- of outbox_events. A foreign key would cost a look-up
  seq            bigint NOT NULL,
  slot           smallint NOT NULL, -- of the event in the log
  version        int,
  aggregate      text COLLATE "C",
  aggregate_id   text COLLATE "C",
  topic          text COLLATE "C" NOT NULL,
  bytes          int NOT NULL, -- of the payload: a claim sums them without reading payloads
  -- When the event is due. 'infinity' means that it has failed, is halted, or is parked: a parked
  -- event waits for another one of its aggregate. The transaction that deletes that one makes the
  -- next one due. PostgreSQL before 17 cannot subtract 'infinity'.
  available_at   timestamptz NOT NULL DEFAULT now(),
  -- The claim that takes the event supersedes the older ones of the aggregate: they are not sent.
  -- Append locks none of them.
  supersedes     boolean NOT NULL DEFAULT false,
  halted         boolean NOT NULL DEFAULT false, -- it waits until its topic's pause ends
  retry_count    int NOT NULL DEFAULT 0 CHECK (retry_count >= 0), -- how often it was refused or returned, or had no answer
  refused_since  timestamptz, -- the first refusal since a return
  failure_code   text CHECK (octet_length(failure_code) <= 64),
  failure_reason text CHECK (octet_length(failure_reason) <= 1024),
  failed_at      timestamptz, -- until an operator replays or discards the event
  CHECK (NOT halted AND failed_at IS NULL OR available_at = 'infinity'), -- the claim checks only available_at
  CHECK (NOT halted OR failed_at IS NULL),
  -- Finds the oldest event of an aggregate, and refuses a version that is in the queue already. Events
  -- without an aggregate have NULL, which equals nothing.
  UNIQUE (aggregate, aggregate_id, version)
);

-- For the claim: the due events in order.
CREATE INDEX outbox_queue_due ON outbox_queue (available_at, seq) WHERE available_at < 'infinity';
-- For a transaction that deletes an event: finds the next parked event of the aggregate. Usually it
-- is empty.
CREATE INDEX outbox_queue_parked ON outbox_queue (aggregate, aggregate_id, version)
  WHERE available_at = 'infinity' AND failed_at IS NULL AND NOT halted;
-- For the claim: the newest event of an aggregate that supersedes the others.
CREATE INDEX outbox_queue_supersedes ON outbox_queue (aggregate, aggregate_id, version) WHERE supersedes;
-- For the events of a paused topic: the one tried least comes first, and of these the oldest. Usually
-- it is empty.
CREATE INDEX outbox_queue_halted ON outbox_queue (topic, retry_count, seq) WHERE halted;
-- For the backlog's numbers: since when events have been refused. Usually it is empty.
CREATE INDEX outbox_queue_refused ON outbox_queue (topic, id) WHERE refused_since IS NOT NULL AND failed_at IS NULL;
-- For the operators: failed events by id, and by reason and topic in the order of their failures.
-- The code is included a second time, because otherwise PostgreSQL reads the table to get it.
-- Usually both are empty.
CREATE INDEX outbox_queue_failed ON outbox_queue (id) WHERE failed_at IS NOT NULL;
CREATE INDEX outbox_queue_failures ON outbox_queue (coalesce(failure_code, ''), topic, failed_at, id)
  INCLUDE (failure_code) WHERE failed_at IS NOT NULL;

-- The events that relays work on. A claim inserts one row here and changes no event.
CREATE TABLE outbox_claims (
  token  uuid PRIMARY KEY, -- each claim has a new one; it fences a stale holder
  worker text NOT NULL, -- for people
  until  timestamptz NOT NULL, -- then another claim may take the events
  events uuid[] NOT NULL
);

-- A topic that is paused. Its events are not claimed: the claim halts those that it finds. When
-- "until" has passed, one of them is tried. If the destination takes it, the topic is resumed.
CREATE TABLE outbox_topics (
  topic    text COLLATE "C" PRIMARY KEY, -- '*' is every topic
  since    timestamptz NOT NULL DEFAULT now(),
  until    timestamptz NOT NULL, -- 'infinity': until an operator resumes it
  pause    float8 NOT NULL, -- seconds; it doubles each time that the event that is tried is not taken
  reason   text NOT NULL CHECK (octet_length(reason) <= 1024),
  operator text CHECK (octet_length(operator) BETWEEN 1 AND 200), -- who paused it; NULL: the relay
  -- The pause is over. The claims make the halted events due, some at a time, and then delete the row.
  resumed  boolean NOT NULL DEFAULT false
);

CREATE TABLE outbox_discarded (
  id             uuid PRIMARY KEY,
  slot           smallint NOT NULL, -- of the event in the log
  discarded_at   timestamptz NOT NULL DEFAULT now(),
  superseded     boolean NOT NULL DEFAULT false, -- by a newer event; nobody discarded it
  failed_at      timestamptz,
  retry_count    int NOT NULL,
  failure_code   text,
  failure_reason text
);
-- For the janitor: the events of the slot that it empties.
CREATE INDEX outbox_discarded_slot ON outbox_discarded (slot, id);

-- All rows of these two are deleted soon. So autovacuum starts at a number of dead rows, and not at
-- a share of the table.
ALTER TABLE outbox_queue SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE outbox_claims SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0
);

-- A payload as text, for people. Bytes that are not UTF-8 text are shown in hexadecimal. It must not be
-- PARALLEL SAFE: no exception can be handled in a parallel query.
CREATE FUNCTION outbox_text(payload bytea) RETURNS text IMMUTABLE STRICT LANGUAGE plpgsql
AS $$ BEGIN
  RETURN convert_from(payload, 'UTF8');
EXCEPTION WHEN OTHERS THEN
  RETURN '\x' || encode(payload, 'hex');
END $$;

-- Everything about an event in one row, for people and for rare queries. It has a part for each
-- status, so a query for one status reads only the tables of that status. If an event is both
-- published and discarded, it is published: a confirm is a fact.
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
       ON c.id = q.id AND q.available_at <= now() -- if it is not due, its holder has rescheduled it
WHERE q.failed_at IS NULL;

-- What operators have decided, by a command or on a page. A decision that changes this database has
-- its row in the transaction of the change.
CREATE TABLE operator_decisions (
  id          uuid PRIMARY KEY, -- of UUID version 7
  decision    uuid NOT NULL, -- a large decision is done in batches, and has a row for each
  at          timestamptz NOT NULL DEFAULT now(),
  operator    text NOT NULL CHECK (octet_length(operator) BETWEEN 1 AND 200),
  via         text NOT NULL CHECK (via IN ('cli', 'page')),
  action      text NOT NULL CHECK (action IN ('replay', 'discard', 'republish', 'pause', 'resume', 'find')),
  filter      text NOT NULL CHECK (octet_length(filter) BETWEEN 1 AND 4096), -- what the operator chose, in words
  items       text[] NOT NULL CHECK (cardinality(items) > 0 OR action = 'find'), -- the ids
  chosen      int NOT NULL GENERATED ALWAYS AS (cardinality(items)) STORED, -- lists need not read the ids
  -- A message at the destination is not in this database. So a row about messages is committed
  -- before the first one is touched, and these two are written afterwards. Without them, at most the
  -- items were changed.
  finished_at timestamptz,
  done        int CHECK (done BETWEEN 0 AND chosen),
  CHECK ((finished_at IS NULL) = (done IS NULL))
);

-- For pruning, for one decision, and for the decisions about one item. Decisions are rare, so each
-- insert writes the whole index, and no search has to read a list of what is not indexed yet.
CREATE INDEX operator_decisions_age ON operator_decisions (at);
CREATE INDEX operator_decisions_decision ON operator_decisions (decision, id);
CREATE INDEX operator_decisions_items ON operator_decisions USING gin (items) WITH (fastupdate = off);
