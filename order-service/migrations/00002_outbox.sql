-- +goose Up
-- Domains, and not CHECKs of the table: PostgreSQL evaluates a table's CHECKs at each
-- UPDATE of a row, and a domain's when a value is assigned. These two are the dear ones,
-- of columns that are written once.
CREATE DOMAIN event_key AS text
  CHECK (VALUE ~ '^[a-z][a-z0-9_]*(\.[a-z0-9_]+){1,7}$' AND octet_length(VALUE) <= 128);
CREATE DOMAIN event_payload AS jsonb CHECK (octet_length(VALUE::text) <= 262144);

-- The states of an event, and what the CHECKs below allow in each:
--
--   pending ──claim──► in_progress ──confirm──► published      (kept for a while, then pruned)
--      ▲                    │
--      ├──back off, release─┤
--      │                    └──given up──► failed ──discard──► discarded
--      └────────────replay───────────────────┘
CREATE TABLE outbox_events (
  id                uuid PRIMARY KEY, -- the AMQP message_id
  -- Breaks ties in the order of claiming. Never a cursor: transactions do not
  -- commit in the order of their numbers.
  seq               bigint GENERATED ALWAYS AS IDENTITY,
  aggregate_type    text NOT NULL CHECK (aggregate_type <> ''),
  aggregate_id      uuid NOT NULL,
  aggregate_version int NOT NULL CHECK (aggregate_version > 0),
  event_key         event_key NOT NULL,
  payload           event_payload NOT NULL,
  traceparent       text NOT NULL DEFAULT '' CHECK (octet_length(traceparent) <= 64),
  status            text NOT NULL DEFAULT 'pending'
                    CHECK (status IN ('pending', 'in_progress', 'published', 'failed', 'discarded')),
  retry_count       int NOT NULL DEFAULT 0 CHECK (retry_count >= 0), -- attempts that were this event's own fault
  -- When the event is due; while it is in progress, when its lease ends. One
  -- column for both, so that the claim's predicate cannot forget a state.
  -- 'infinity' behind a failed event: out of the way of claims, until somebody
  -- decides about that one. Mind that PostgreSQL before 17 cannot subtract it.
  available_at      timestamptz NOT NULL DEFAULT now(),
  lease_token       uuid, -- drawn anew by each claim: what fences a stale holder
  locked_by         text, -- which worker, for people
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

-- Serves the claim: whatever is due, in order, and nothing that is finished.
CREATE INDEX outbox_events_due ON outbox_events (available_at, seq)
  WHERE status IN ('pending', 'in_progress');

-- Serves the operators' commands: what failed and waits for a decision. Small, as
-- long as all is well.
CREATE INDEX outbox_events_failed ON outbox_events (id) WHERE status = 'failed';

-- Serves the pruning of what was finished long ago. A BRIN: old rows lie together,
-- and a B-tree would have to be kept up at each publish.
CREATE INDEX outbox_events_age ON outbox_events USING brin (created_at) WITH (pages_per_range = 32);

-- A queue table turns over completely: vacuum by a count of dead rows, not by a
-- share of the table.
ALTER TABLE outbox_events SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- +goose Down
DROP TABLE outbox_events;
DROP DOMAIN event_payload;
DROP DOMAIN event_key;
