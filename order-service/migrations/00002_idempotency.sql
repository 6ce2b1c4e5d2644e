-- +goose Up
-- The requests that have created an order. The row is inserted in the order's transaction, so both
-- exist or neither does.
CREATE TABLE idempotency_keys (
  key          text PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 255), -- chosen by the client
  request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32), -- SHA-256 of the request
  -- Deferred, because the order is inserted after the key.
  order_id     uuid NOT NULL REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED,
  created_at   timestamptz NOT NULL DEFAULT now()
);

-- For pruning the keys that are older than IDEMPOTENCY_RETENTION.
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

-- +goose Down
DROP TABLE idempotency_keys;
