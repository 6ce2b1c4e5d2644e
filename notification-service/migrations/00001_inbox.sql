-- +goose Up
-- The messages that have had their effect. A row is written in the transaction of the effect, so
-- both exist or neither does. processed_at is never before the message's creation, even if the
-- producer's clock is ahead.
CREATE TABLE processed_messages (
  message_id   uuid PRIMARY KEY,
  processed_at timestamptz NOT NULL DEFAULT now()
);

-- For pruning rows that are an hour older than INBOX_RETENTION.
CREATE INDEX processed_messages_age ON processed_messages (processed_at);

-- +goose Down
DROP TABLE processed_messages;
