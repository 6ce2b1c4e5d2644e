-- The privileges of notification-service in its database. `migrate` runs this each time, after
-- the numbered files. It revokes every privilege that is not granted here.
--
-- The content of a notification never changes: only its state may be updated. In a database
-- without the role, for example of a developer or a test, nothing happens.
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'notification_service') THEN
    RETURN;
  END IF;
  REVOKE ALL ON ALL TABLES IN SCHEMA public FROM notification_service;

  GRANT SELECT ON goose_db_version, processed_messages, order_progress, notifications, operator_decisions
    TO notification_service;

  -- Pruning locks the rows with FOR UPDATE, which needs UPDATE on at least one column.
  GRANT INSERT (message_id, processed_at), UPDATE (processed_at), DELETE
    ON processed_messages TO notification_service;

  GRANT INSERT (order_id, last_version), UPDATE (last_version), DELETE
    ON order_progress TO notification_service;

  -- created_at is not granted: it is always the database's now().
  GRANT INSERT (message_id, order_id, order_version, event_key, recipient, order_details,
                status, attempts, lease_token, lease_until),
        UPDATE (status, attempts, lease_token, lease_until, failure_reason, sent_at), DELETE
    ON notifications TO notification_service;

  -- What an operator decided cannot be changed. Only its end may be added, and pruning locks the
  -- rows that it deletes.
  GRANT INSERT (id, decision, operator, via, action, filter, items, finished_at, done),
        UPDATE (finished_at, done), DELETE
    ON operator_decisions TO notification_service;
END $$;
