-- +goose Up
-- The newest version of each order that this service has had an event of. Raising it locks the row.
-- So the e-mails of one order are appended to the outbox one after the other, by version. A row is
-- kept for ever, as the order is: without it, an old event that comes again would be the newest.
CREATE TABLE order_progress (
  order_id     uuid PRIMARY KEY,
  last_version int NOT NULL CHECK (last_version > 0)
);

-- +goose Down
DROP TABLE order_progress;
