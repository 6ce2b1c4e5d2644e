-- +goose NO TRANSACTION
-- +goose Up
-- CONCURRENTLY, so that orders are taken meanwhile. One that is broken off leaves an index
-- that is not valid, so it is dropped first.
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_unroutable;

-- Serves the events that wait until a queue is bound for their key, and the look whether
-- one of them is being tried. Nothing is in it, as long as all is well.
CREATE INDEX CONCURRENTLY outbox_events_unroutable ON outbox_events (event_key, available_at, seq)
  WHERE status = 'pending' AND failure_code = 'unroutable';

-- Pruning finds old events by their ids. In a BRIN, the pages that are used again become
-- pages of all times.
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_age;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_unroutable;
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_age ON outbox_events USING brin (created_at) WITH (pages_per_range = 32);
