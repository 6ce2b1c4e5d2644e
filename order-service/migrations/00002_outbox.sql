-- +goose Up
-- These are domains because PostgreSQL evaluates a table's CHECKs at each UPDATE of a row, but a
-- domain's CHECK only when a value is assigned. These two CHECKs are expensive, and their columns
-- are written once.
CREATE DOMAIN event_key AS text
  CHECK (VALUE ~ '^[a-z][a-z0-9_]*(\.[a-z0-9_]+){1,7}$' AND octet_length(VALUE) <= 128);
CREATE DOMAIN event_payload AS jsonb CHECK (octet_length(VALUE::text) <= 262144);

-- The states of an event. The CHECKs below enforce what each state requires:
--
--   pending ──claim──► in_progress ──confirm──► published      (pruned after the retention)
--      ▲                    │
--      ├──back off, release─┤
--      │                    └──fail──────► failed ──discard──► discarded
--      └────────────replay───────────────────┘
CREATE TABLE outbox_events (
  id                uuid PRIMARY KEY, -- the AMQP message_id
  -- Breaks ties in the order of claims. It cannot be a cursor: transactions do not commit in the
  -- order of their numbers.
  seq               bigint GENERATED ALWAYS AS IDENTITY,
  aggregate_type    text NOT NULL CHECK (aggregate_type <> ''),
  aggregate_id      uuid NOT NULL,
  aggregate_version int NOT NULL CHECK (aggregate_version > 0),
  event_key         event_key NOT NULL,
  payload           event_payload NOT NULL,
  traceparent       text NOT NULL DEFAULT '' CHECK (octet_length(traceparent) <= 64),
  status            text NOT NULL DEFAULT 'pending'
                    CHECK (status IN ('pending', 'in_progress', 'published', 'failed', 'discarded')),
  -- Attempts that failed because of this event. Outages do not count.
  retry_count       int NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
  -- When the event is due; while it is in progress, when its lease ends. One column has both, so
  -- that the claim needs one condition for all states. 'infinity' means that the event is parked
  -- behind a failed one: claims do not read it until somebody replays or discards that one.
  -- PostgreSQL before 17 cannot subtract 'infinity'.
  available_at      timestamptz NOT NULL DEFAULT now(),
  lease_token       uuid, -- each claim has a new one; it fences a stale holder
  locked_by         text, -- the worker, for people
  failure_code      text CHECK (failure_code IN ('unroutable', 'refused', 'channel_closed', 'too_large', 'bad_key', 'bad_headers')),
  failure_reason    text CHECK (octet_length(failure_reason) <= 1024),
  created_at        timestamptz NOT NULL DEFAULT now(),
  published_at      timestamptz,
  failed_at         timestamptz,
  UNIQUE (aggregate_type, aggregate_id, aggregate_version),
  CHECK ((status = 'in_progress') = (lease_token IS NOT NULL)),
  CHECK ((status = 'in_progress') = (locked_by IS NOT NULL)),
  CHECK ((status = 'published') = (published_at IS NOT NULL)),
  CHECK ((status IN ('failed', 'discarded')) = (failed_at IS NOT NULL))
);

-- For the claim: the due events in order, without finished ones.
CREATE INDEX outbox_events_due ON outbox_events (available_at, seq)
  WHERE status IN ('pending', 'in_progress');

-- For the operators' commands: the failed events. Usually it is small.
CREATE INDEX outbox_events_failed ON outbox_events (id) WHERE status = 'failed';

-- For pruning. It is a BRIN because old rows are in the same pages, and because each publish would
-- have to update a B-tree.
CREATE INDEX outbox_events_age ON outbox_events USING brin (created_at) WITH (pages_per_range = 32);

-- All rows of a queue are updated again and again. So autovacuum starts at a number of dead rows,
-- and not at a share of the table.
ALTER TABLE outbox_events SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- +goose Down
DROP TABLE outbox_events;
DROP DOMAIN event_payload;
DROP DOMAIN event_key;
