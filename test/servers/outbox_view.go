package servers

// WritableOutboxView is SQL that lets a test write to the view outbox_status as if it were a
// table, to put an event into any state.
const WritableOutboxView = `
CREATE FUNCTION write_outbox_view() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload, traceparent, created_at)
    VALUES (NEW.id, NEW.aggregate_type, NEW.aggregate_id, NEW.aggregate_version, NEW.event_key, NEW.payload,
            coalesce(NEW.traceparent, ''), coalesce(NEW.created_at, now()))
    RETURNING seq INTO NEW.seq;
  ELSE
    UPDATE outbox_events
    SET id = NEW.id, aggregate_version = NEW.aggregate_version, event_key = NEW.event_key, payload = NEW.payload,
        traceparent = NEW.traceparent, created_at = NEW.created_at
    WHERE id = OLD.id;
    DELETE FROM outbox_queue
    WHERE (aggregate_type, aggregate_id, aggregate_version) = (OLD.aggregate_type, OLD.aggregate_id, OLD.aggregate_version);
    DELETE FROM outbox_published WHERE id = OLD.id;
    DELETE FROM outbox_discarded WHERE id = OLD.id;
    UPDATE outbox_claims SET events = array_remove(events, OLD.id) WHERE OLD.id = ANY (events);
  END IF;
  NEW.retry_count := coalesce(NEW.retry_count, 0);
  IF NEW.status = 'published' THEN
    INSERT INTO outbox_published VALUES (NEW.id, NEW.retry_count, coalesce(NEW.published_at, now()));
  ELSIF NEW.status = 'discarded' THEN
    INSERT INTO outbox_discarded
    VALUES (NEW.id, NEW.failed_at, NEW.failed_at, NEW.retry_count, NEW.failure_code, NEW.failure_reason);
  ELSE
    INSERT INTO outbox_queue (id, seq, aggregate_type, aggregate_id, aggregate_version, event_key, bytes,
                              available_at, retry_count, failure_code, failure_reason, failed_at)
    VALUES (NEW.id, NEW.seq, NEW.aggregate_type, NEW.aggregate_id, NEW.aggregate_version, NEW.event_key,
            octet_length(NEW.payload::text),
            CASE NEW.status WHEN 'failed' THEN 'infinity' WHEN 'in_progress' THEN now() ELSE coalesce(NEW.available_at, now()) END,
            NEW.retry_count, NEW.failure_code, NEW.failure_reason,
            CASE WHEN NEW.status = 'failed' THEN NEW.failed_at END);
    IF NEW.status = 'in_progress' THEN
      INSERT INTO outbox_claims VALUES (NEW.lease_token, NEW.locked_by, NEW.available_at, ARRAY[NEW.id])
      ON CONFLICT (token) DO UPDATE SET events = outbox_claims.events || excluded.events;
    END IF;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER write_outbox_view INSTEAD OF INSERT OR UPDATE ON outbox_status FOR EACH ROW EXECUTE FUNCTION write_outbox_view()`
