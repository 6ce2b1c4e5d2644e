-- What notification-service may do in its database. Each `migrate` runs this after the numbered
-- files. It revokes everything that is not granted here.
--
-- The service cannot change an e-mail of the log, and cannot forget an order. In a database without
-- the role, such as a developer's or a test's, this does nothing.
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'notification_service') THEN
    RETURN;
  END IF;
  REVOKE ALL ON ALL TABLES IN SCHEMA public FROM notification_service;
  REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM notification_service;
  REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM notification_service;

  GRANT SELECT ON goose_db_version, inbox_version, outbox_version, processed_messages, order_progress,
                  outbox_events, outbox_queue, outbox_claims, outbox_topics, outbox_done,
                  outbox_status, operator_decisions
    TO notification_service;

  GRANT EXECUTE ON FUNCTION outbox_text TO notification_service; -- for the view

  -- A known message is locked by an UPDATE that changes nothing, and pruning locks what it deletes.
  -- The service cannot set processed_at of a new message: it is the database's now().
  GRANT INSERT (consumer, message_id), UPDATE (processed_at), DELETE ON processed_messages TO notification_service;
  GRANT INSERT (order_id, last_version), UPDATE (last_version) ON order_progress TO notification_service;

  -- There is no UPDATE: an e-mail of the log never changes. The janitor deletes old ones, here and
  -- in outbox_done.
  GRANT INSERT (id, version, aggregate, aggregate_id, topic, destination, payload, content_type, headers, traceparent), DELETE
    ON outbox_events TO notification_service;

  GRANT INSERT (id, seq, version, aggregate, aggregate_id, topic, bytes, available_at, supersedes, due_since),
        UPDATE (available_at, due_since, halted, retry_count, refused_since,
                failure_code, failure_reason, failed_at), DELETE
    ON outbox_queue TO notification_service;

  -- A late confirm changes what was discarded or superseded to published. The janitor locks the
  -- rows that it deletes, which also requires the right to UPDATE a column.
  GRANT INSERT (id, status, retry_count, failed_at, failure_code, failure_reason),
        UPDATE (status, done_at, retry_count, failed_at, failure_code, failure_reason), DELETE
    ON outbox_done TO notification_service;

  -- Settle removes an e-mail from its claim, and Renew moves the end of the lease.
  GRANT INSERT, UPDATE (until, events), DELETE ON outbox_claims TO notification_service;
  GRANT INSERT, UPDATE, DELETE ON outbox_topics TO notification_service;

  -- What an operator decided cannot be changed. Only its end may be added, and pruning locks the
  -- rows that it deletes.
  GRANT INSERT (id, decision, operator, via, action, filter, items, finished_at, done),
        UPDATE (finished_at, done), DELETE
    ON operator_decisions TO notification_service;
END $$;
