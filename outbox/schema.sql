-- The tables of the outbox, as Migrate makes them. Read them from top to bottom.
--
--   outbox_events      the log: every event, inserted with the business data, and never updated
--   outbox_queue       what is not done: one narrow row for each event, deleted when it is done
--   outbox_claims      the events that a relay works on, and until when
--   outbox_topics      the topics that are paused, and why
--   outbox_done        what is done: one narrow row for each event that was published, discarded by
--                      an operator, or superseded by a newer event of its aggregate
--   outbox_status      a view: one row for each event, with its status
--   operator_decisions who has decided what about which events
--
-- An event is done if and only if it has no row in outbox_queue.
--
-- Names and ids are compared byte by byte (COLLATE "C"). It is faster, and an upgrade of the operating
-- system, which may change the order of other collations, breaks no index.

-- The row of an event stays until it was done longer ago than the retention. Then the janitor
-- deletes it here and in outbox_done. So for that time an id is unique, and so is a version of an
-- aggregate.
CREATE TABLE outbox_events (
  id           uuid PRIMARY KEY, -- the message's id, at each delivery the same
  -- Breaks ties in the order of claims. It is no cursor: transactions do not commit in the order of
  -- their numbers.
  seq          bigint GENERATED ALWAYS AS IDENTITY,
  version      int CHECK (version > 0),
  -- What the event is about, for example order 0198c0de…. All three are NULL for an event without
  -- an aggregate: it has no order.
  aggregate    text COLLATE "C" CHECK (octet_length(aggregate) BETWEEN 1 AND 255),
  aggregate_id text COLLATE "C" CHECK (octet_length(aggregate_id) BETWEEN 1 AND 255),
  topic        text COLLATE "C" NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
  destination  text COLLATE "C" CHECK (octet_length(destination) BETWEEN 1 AND 255), -- NULL: the publisher's own
  payload      bytea NOT NULL CHECK (octet_length(payload) <= 262144),
  content_type text NOT NULL CHECK (octet_length(content_type) <= 255),
  headers      json CHECK (octet_length(headers::text) <= 65536), -- NULL: none
  traceparent  text NOT NULL DEFAULT '' CHECK (octet_length(traceparent) <= 64),
  created_at   timestamptz NOT NULL DEFAULT now(),
  CHECK (num_nulls(aggregate, aggregate_id, version) IN (0, 3))
);

-- For the events of an aggregate, in their order. An event without an aggregate has NULL, which
-- equals nothing.
CREATE UNIQUE INDEX outbox_events_history ON outbox_events (aggregate, aggregate_id, version);

-- One row for each event that is not done. While the row exists, the later events of its aggregate
-- wait, unless they supersede it.
CREATE TABLE outbox_queue (
  id             uuid PRIMARY KEY, -- of outbox_events. A foreign key would cost a look-up
  seq            bigint NOT NULL,
  version        int,
  aggregate      text COLLATE "C",
  aggregate_id   text COLLATE "C",
  topic          text COLLATE "C" NOT NULL, -- under which it pauses: destination/topic, or the topic
  bytes          int NOT NULL, -- of the payload: a claim sums them without reading payloads
  -- When the event is due. 'infinity' means that it has failed, is halted, or is parked: a parked
  -- event waits for another one of its aggregate. The transaction that deletes that one makes the
  -- next one due. PostgreSQL before 17 cannot subtract 'infinity'.
  available_at   timestamptz NOT NULL DEFAULT now(),
  -- The claim that takes the event supersedes the older ones of the aggregate: they are not sent.
  -- Append locks none of them.
  supersedes     boolean NOT NULL DEFAULT false,
  -- The time that Append asked for, or that of the last replay. Retries, pauses and claims do not
  -- change it.
  due_since      timestamptz NOT NULL DEFAULT now(),
  halted         boolean NOT NULL DEFAULT false, -- it waits until its topic's pause ends
  retry_count    int NOT NULL DEFAULT 0 CHECK (retry_count >= 0), -- how often it was refused or returned, or had no answer
  refused_since  timestamptz, -- the first refusal since a return
  failure_code   text CHECK (octet_length(failure_code) <= 64),
  failure_reason text CHECK (octet_length(failure_reason) <= 1024),
  failed_at      timestamptz, -- until an operator replays or discards the event
  CHECK (NOT halted AND failed_at IS NULL OR available_at = 'infinity'), -- the claim checks only available_at
  CHECK (NOT halted OR failed_at IS NULL),
  UNIQUE (aggregate, aggregate_id, version) -- finds the oldest event of an aggregate
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
-- For the backlog's numbers: the oldest event that is due and not done, whatever it waits for. It
-- is a CASE, so that no other statement about events that have not failed reads this whole index.
CREATE INDEX outbox_queue_since ON outbox_queue (due_since) WHERE CASE WHEN failed_at IS NULL THEN true END;
-- For the same: since when events have been refused. Usually it is empty.
CREATE INDEX outbox_queue_refused ON outbox_queue (topic, id) WHERE refused_since IS NOT NULL AND failed_at IS NULL;
-- For the operators: failed events by id, and by reason and topic in the order of their failures.
-- The code is included a second time, because otherwise PostgreSQL reads the table to get it.
-- Usually both are empty.
CREATE INDEX outbox_queue_failed ON outbox_queue (id) WHERE failed_at IS NOT NULL;
CREATE INDEX outbox_queue_failures ON outbox_queue (coalesce(failure_code, ''), topic, failed_at, id)
  INCLUDE (failure_code) WHERE failed_at IS NOT NULL;

-- The events that relays work on. A claim inserts one row here, and changes no event that it takes.
CREATE TABLE outbox_claims (
  token  uuid PRIMARY KEY, -- each claim has a new one; it fences a stale holder
  worker text NOT NULL, -- for people
  until  timestamptz NOT NULL, -- then another claim may take the events
  events uuid[] NOT NULL
);

-- A topic that is paused. Its events are not claimed: claims halt those that they find. When "until"
-- has passed, one of them is tried, or a few: the probes. If one is confirmed, the topic is resumed.
CREATE TABLE outbox_topics (
  topic    text COLLATE "C" PRIMARY KEY, -- as in outbox_queue; '*' is every topic
  since    timestamptz NOT NULL DEFAULT now(),
  until    timestamptz NOT NULL, -- 'infinity': until an operator resumes it
  pause    float8 NOT NULL, -- seconds; it doubles each time that a probe pauses the topic again
  reason   text NOT NULL CHECK (octet_length(reason) <= 1024),
  operator text CHECK (octet_length(operator) BETWEEN 1 AND 200), -- who paused it; NULL: the relay
  -- The pause is over. The claims make the halted events due, some at a time, and then delete the row.
  resumed  boolean NOT NULL DEFAULT false
);

CREATE TABLE outbox_done (
  id             uuid PRIMARY KEY, -- of outbox_events
  done_at        timestamptz NOT NULL DEFAULT now(),
  retry_count    int NOT NULL,
  -- A confirm is a fact: what was discarded or superseded, and is confirmed later, was published.
  status         text COLLATE "C" NOT NULL CHECK (status IN ('published', 'discarded', 'superseded')),
  -- The last failure of an event that was not published.
  failed_at      timestamptz,
  failure_code   text,
  failure_reason text
);

-- For the janitor, the oldest first, and for publishing again what was published in a range of
-- time.
CREATE INDEX outbox_done_age ON outbox_done (done_at, id);
-- For the operators: what was not published. Usually it is small.
CREATE INDEX outbox_done_unsent ON outbox_done (id) WHERE status <> 'published';

-- The janitor deletes old rows of these two each minute. Autovacuum starts when a twentieth of the
-- rows is dead, and not a fifth: a fifth of a hundred million rows would be a long vacuum.
ALTER TABLE outbox_events SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE outbox_done SET (autovacuum_vacuum_scale_factor = 0.05);

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
-- kind of status, so a query for one status reads only the tables of that kind.
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
       ON c.id = q.id AND q.available_at <= now() -- if it is not due, its holder has rescheduled it
WHERE q.failed_at IS NULL;

-- What operators have decided, by a command or on a page. A decision that changes this database has
-- its row in the transaction of the change.
CREATE TABLE operator_decisions (
  id          uuid PRIMARY KEY, -- of UUID version 7
  decision    uuid NOT NULL, -- a large decision is done in batches, and has a row for each
  at          timestamptz NOT NULL DEFAULT now(),
  operator    text NOT NULL CHECK (octet_length(operator) BETWEEN 1 AND 200),
  via         text NOT NULL CHECK (octet_length(via) BETWEEN 1 AND 20), -- by which means: 'cli', 'page', or another word
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
