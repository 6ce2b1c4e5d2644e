-- +goose NO TRANSACTION
-- +goose Up
-- CONCURRENTLY does not block new orders. If it is interrupted, it leaves an invalid index. So the
-- index is dropped first.
DROP INDEX CONCURRENTLY IF EXISTS outbox_queue_failures;

-- For the operators: the failed events of each reason and key, in the order of their failures. Lists,
-- time ranges and counts read only the rows that they show. Usually it is empty. The code is included
-- a second time, because otherwise PostgreSQL reads the table to get it.
CREATE INDEX CONCURRENTLY outbox_queue_failures ON outbox_queue (coalesce(failure_code, ''), event_key, failed_at, id)
  INCLUDE (failure_code) WHERE failed_at IS NOT NULL;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS outbox_queue_failures;
