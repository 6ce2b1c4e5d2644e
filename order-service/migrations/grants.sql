-- What order-service may do in its database. Each `migrate` runs this after the numbered files. It
-- revokes everything that is not granted here.
--
-- The service cannot change an event of the log, nor delete an order. In a database without the
-- role, such as a developer's or a test's, this does nothing.
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'order_service') THEN
    RETURN;
  END IF;
  REVOKE ALL ON ALL TABLES IN SCHEMA public FROM order_service;
  REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM order_service;
  REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM order_service;

  GRANT SELECT ON goose_db_version, outbox_version, products, orders, idempotency_keys,
                  outbox_events, outbox_queue, outbox_claims, outbox_topics, outbox_done,
                  outbox_status, operator_decisions
    TO order_service;

  GRANT EXECUTE ON FUNCTION outbox_text TO order_service; -- for the view

  -- The service cannot set created_at: it is the database's now().
  GRANT INSERT (id, version, customer_id, customer_email, product_id, quantity, amount, currency, status),
        UPDATE (version, status)
    ON orders TO order_service;

  -- There is no UPDATE: an event of the log never changes. The janitor deletes old ones, here and
  -- in outbox_done.
  GRANT INSERT (id, version, aggregate, aggregate_id, topic, destination, payload, content_type, headers, traceparent), DELETE
    ON outbox_events TO order_service;

  GRANT INSERT (id, seq, version, aggregate, aggregate_id, topic, bytes, available_at, supersedes, due_since),
        UPDATE (available_at, due_since, halted, retry_count, refused_since,
                failure_code, failure_reason, failed_at), DELETE
    ON outbox_queue TO order_service;

  -- A late confirm changes what was discarded or superseded to published. The janitor locks the
  -- rows that it deletes, which also requires the right to UPDATE a column.
  GRANT INSERT (id, status, retry_count, failed_at, failure_code, failure_reason),
        UPDATE (status, done_at, retry_count, failed_at, failure_code, failure_reason), DELETE
    ON outbox_done TO order_service;

  -- Settle removes an event from its claim, and Renew moves the end of the lease.
  GRANT INSERT, UPDATE (until, events), DELETE ON outbox_claims TO order_service;
  GRANT INSERT, UPDATE, DELETE ON outbox_topics TO order_service;
  -- Pruning locks the rows that it deletes, and FOR UPDATE requires the right to UPDATE a column.
  GRANT INSERT (key, request_hash, order_id), UPDATE (created_at), DELETE
    ON idempotency_keys TO order_service;

  -- What an operator decided cannot be changed. Only its end may be added, and pruning locks the
  -- rows that it deletes.
  GRANT INSERT (id, decision, operator, via, action, filter, items, finished_at, done),
        UPDATE (finished_at, done), DELETE
    ON operator_decisions TO order_service;
END $$;
