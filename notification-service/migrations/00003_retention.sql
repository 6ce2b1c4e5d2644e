-- +goose Up
-- For pruning rows that are an hour older than NOTIFICATION_RETENTION.
CREATE INDEX notifications_age ON notifications (created_at);

-- +goose Down
DROP INDEX notifications_age;
