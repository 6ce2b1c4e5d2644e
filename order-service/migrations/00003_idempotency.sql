-- +goose Up
-- Which requests have had their order. A row is written in the order's transaction, so
-- both exist or neither does.
CREATE TABLE idempotency_keys (
  key          text PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 255), -- chosen by the client
  request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32), -- SHA-256 of what was asked for
  order_id     uuid NOT NULL REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED, -- the order follows the key
  created_at   timestamptz NOT NULL DEFAULT now()
);

-- Serves the pruning of what is older than IDEMPOTENCY_RETENTION.
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

-- +goose Down
DROP TABLE idempotency_keys;
