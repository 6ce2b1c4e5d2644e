-- +goose Up
-- The newest version of each order that this service has seen. Raising it locks the row, which
-- serialises the order's events.
CREATE TABLE order_progress (
  order_id     uuid PRIMARY KEY,
  last_version int NOT NULL CHECK (last_version > 0)
);

-- The states of a notification:
--
--   pending ──start──► sending ──250──► sent
--      │                  │ ├──5xx──► rejected
--      │                  │ └──lease ends, temporary refusal──► may be started again
--      └──the order has a newer event──► superseded
CREATE TABLE notifications (
  message_id     uuid PRIMARY KEY,
  order_id       uuid NOT NULL,
  order_version  int NOT NULL CHECK (order_version > 0),
  event_key      text NOT NULL,
  recipient      text NOT NULL,
  order_details  jsonb NOT NULL, -- the content of the e-mail
  status         text NOT NULL DEFAULT 'pending'
                 CHECK (status IN ('pending', 'sending', 'sent', 'rejected', 'superseded')),
  attempts       int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  lease_token    uuid,
  lease_until    timestamptz,
  failure_reason text CHECK (octet_length(failure_reason) <= 1024),
  created_at     timestamptz NOT NULL DEFAULT now(),
  sent_at        timestamptz,
  CHECK ((status = 'sending') = (lease_token IS NOT NULL)),
  CHECK ((status = 'sending') = (lease_until IS NOT NULL)),
  CHECK ((status = 'sent') = (sent_at IS NOT NULL))
);

-- For finding all e-mails about an order.
CREATE INDEX notifications_order ON notifications (order_id, order_version);

-- +goose Down
DROP TABLE notifications;
DROP TABLE order_progress;
