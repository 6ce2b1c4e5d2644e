-- What order-service may do in its database. `migrate` runs this each time, after the
-- numbered files: what is not granted here is taken away.
--
-- An event's content never changes: of a row, only its state may be written. Nobody deletes
-- an order. In a database without the role, which a developer or a test has, nothing happens.
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'order_service') THEN
    RETURN;
  END IF;
  REVOKE ALL ON ALL TABLES IN SCHEMA public FROM order_service;

  GRANT SELECT ON goose_db_version, products, orders, outbox_events, idempotency_keys TO order_service;

  -- created_at is nobody's to say: it is the database's now().
  GRANT INSERT (id, version, customer_id, customer_email, product_id, quantity, amount, currency, status),
        UPDATE (version, status)
    ON orders TO order_service;

  GRANT INSERT (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, traceparent, available_at),
        UPDATE (status, retry_count, available_at, lease_token, locked_by,
                failure_code, failure_reason, published_at, failed_at),
        DELETE
    ON outbox_events TO order_service;

  -- UPDATE, because FOR UPDATE asks for it, on any one column: pruning locks what it deletes.
  GRANT INSERT (key, request_hash, order_id), UPDATE (created_at), DELETE
    ON idempotency_keys TO order_service;
END $$;
