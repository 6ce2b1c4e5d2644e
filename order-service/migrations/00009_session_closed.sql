-- +goose Up
-- The failure codes fit every broker: not each one has channels. A relay of the version before this
-- one still writes channel_closed during a rolling update.
ALTER TABLE outbox_queue
  DROP CONSTRAINT outbox_queue_failure_code_check,
  ADD CONSTRAINT outbox_queue_failure_code_check CHECK (failure_code IN (
    'unroutable', 'refused', 'session_closed', 'channel_closed', 'too_large', 'bad_key', 'bad_headers')) NOT VALID;
UPDATE outbox_queue SET failure_code = 'session_closed' WHERE failure_code = 'channel_closed';
UPDATE outbox_discarded SET failure_code = 'session_closed' WHERE failure_code = 'channel_closed';

-- +goose Down
UPDATE outbox_queue SET failure_code = 'channel_closed' WHERE failure_code = 'session_closed';
UPDATE outbox_discarded SET failure_code = 'channel_closed' WHERE failure_code = 'session_closed';
ALTER TABLE outbox_queue
  DROP CONSTRAINT outbox_queue_failure_code_check,
  ADD CONSTRAINT outbox_queue_failure_code_check CHECK (failure_code IN (
    'unroutable', 'refused', 'channel_closed', 'too_large', 'bad_key', 'bad_headers'));
