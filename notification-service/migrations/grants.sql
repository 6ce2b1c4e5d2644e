-- What notification-service may do in its database. `migrate` runs this each time, after the
-- numbered files: what is not granted here is taken away.
--
-- What a notification says never changes: of a row, only its state may be written. In a
-- database without the role, which a developer or a test has, nothing happens.
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'notification_service') THEN
    RETURN;
  END IF;
  REVOKE ALL ON ALL TABLES IN SCHEMA public FROM notification_service;

  GRANT SELECT ON goose_db_version, processed_messages, order_progress, notifications TO notification_service;

  -- UPDATE, because FOR UPDATE asks for it, on any one column: pruning locks what it deletes.
  GRANT INSERT (message_id, processed_at), UPDATE (processed_at), DELETE
    ON processed_messages TO notification_service;

  GRANT INSERT (order_id, last_version), UPDATE (last_version), DELETE
    ON order_progress TO notification_service;

  -- created_at is nobody's to say: it is the database's now().
  GRANT INSERT (message_id, order_id, order_version, event_key, recipient, order_details,
                status, attempts, lease_token, lease_until),
        UPDATE (status, attempts, lease_token, lease_until, failure_reason, sent_at), DELETE
    ON notifications TO notification_service;
END $$;
