-- +goose Up
-- The messages that have had their effect. A row is written in the transaction of the effect, so
-- both exist or neither does.
--
-- The key has the consumer's name: two consumers that share a database both get each message. The
-- id is text, because not every producer's ids are UUIDs. COLLATE "C" compares bytes: an upgrade
-- of the operating system's sort order cannot break the index.
CREATE TABLE processed_messages (
  consumer     text COLLATE "C" NOT NULL CHECK (octet_length(consumer) BETWEEN 1 AND 255),
  message_id   text COLLATE "C" NOT NULL CHECK (octet_length(message_id) BETWEEN 1 AND 255),
  processed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, message_id)
);

-- For pruning: the old end of a consumer's rows.
CREATE INDEX processed_messages_age ON processed_messages (consumer, processed_at);
