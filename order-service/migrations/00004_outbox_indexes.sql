-- +goose NO TRANSACTION
-- +goose Up
-- CONCURRENTLY does not block new orders. If it is interrupted, it leaves an invalid index. So the
-- index is dropped first.
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_unroutable;

-- For the events that wait until a queue is bound for their key, and for the search for the probe
-- of a key. Usually it is empty.
CREATE INDEX CONCURRENTLY outbox_events_unroutable ON outbox_events (event_key, available_at, seq)
  WHERE status = 'pending' AND failure_code = 'unroutable';

-- Pruning now finds old events by their ids. After pages are reused, each page has events of any
-- age, and a BRIN no longer helps.
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_age;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_unroutable;
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_age ON outbox_events USING brin (created_at) WITH (pages_per_range = 32);
