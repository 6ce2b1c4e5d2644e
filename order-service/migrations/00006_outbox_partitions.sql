-- +goose Up
-- Partitions the log by time. Old events are removed by dropping a whole partition: no row is
-- deleted, and there is nothing to vacuum. Ids are of UUID version 7, so a range of ids is a range
-- of time. outbox_published has the same ranges.
--
-- The existing tables become the default partitions, and none of their rows moves. The lock lasts
-- as long as PostgreSQL builds one index, and reads the tables once if they are large.
-- +goose StatementBegin
LOCK TABLE outbox_events, outbox_published IN ACCESS EXCLUSIVE MODE;

DO $$
DECLARE
  status text := pg_get_viewdef('outbox_status');
  next   bigint := nextval(pg_get_serial_sequence('outbox_events', 'seq'));
BEGIN
  DROP VIEW outbox_status;
  ALTER TABLE outbox_events RENAME TO outbox_events_default;
  ALTER TABLE outbox_events_default RENAME CONSTRAINT outbox_events_pkey TO outbox_events_default_pkey;
  -- A unique constraint over all partitions must include the id. The queue refuses two events of
  -- one version, and a new version is assigned while the order's row is locked.
  ALTER TABLE outbox_events_default DROP CONSTRAINT outbox_events_aggregate_type_aggregate_id_aggregate_version_key;
  ALTER TABLE outbox_events_default ALTER seq DROP IDENTITY;
  ALTER TABLE outbox_published RENAME TO outbox_published_default;
  ALTER TABLE outbox_published_default RENAME CONSTRAINT outbox_published_pkey TO outbox_published_default_pkey;

  CREATE TABLE outbox_events (LIKE outbox_events_default INCLUDING DEFAULTS INCLUDING CONSTRAINTS, PRIMARY KEY (id))
    PARTITION BY RANGE (id);
  EXECUTE format('ALTER TABLE outbox_events ALTER seq ADD GENERATED ALWAYS AS IDENTITY (START WITH %s)', next);
  CREATE TABLE outbox_published (LIKE outbox_published_default INCLUDING DEFAULTS, PRIMARY KEY (id))
    PARTITION BY RANGE (id);
  -- For the history of an order, and for operators who read events in the order of their versions.
  -- For republishing, and for the retention. A BRIN is small and costs an INSERT almost nothing.
  CREATE INDEX outbox_published_time ON outbox_published USING brin (published_at) WITH (autosummarize = on);
  CREATE INDEX outbox_events_history ON outbox_events (aggregate_type, aggregate_id, aggregate_version);
  ALTER TABLE outbox_events ATTACH PARTITION outbox_events_default DEFAULT;
  ALTER TABLE outbox_published ATTACH PARTITION outbox_published_default DEFAULT;
  EXECUTE 'CREATE VIEW outbox_status AS ' || status;
END $$;

-- The smallest id of a time, and the time of an id.
CREATE FUNCTION outbox_first_id(moment timestamptz) RETURNS uuid IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql
AS $$ SELECT rpad(lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0'), 32, '0')::uuid $$;
CREATE FUNCTION outbox_id_time(id uuid) RETURNS timestamptz IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql
AS $$ SELECT to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0) $$;

-- All partitions except the default one.
CREATE VIEW outbox_partitions AS
SELECT events, replace(events, 'outbox_events', 'outbox_published') AS published,
       first_id, end_id, outbox_id_time(first_id) AS since, outbox_id_time(end_id) AS until
FROM (
  SELECT c.relname::text AS events, pg_get_expr(c.relpartbound, c.oid) AS bound
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'outbox_events'::regclass
) p, LATERAL (SELECT substring(bound FROM 'FROM \(''([^'']+)')::uuid AS first_id,
                     substring(bound FROM 'TO \(''([^'']+)')::uuid AS end_id) b
WHERE bound <> 'DEFAULT';

-- The default partition has the events that no other partition is made for. To make a partition,
-- PostgreSQL reads the whole default partition, to check that no row belongs to the new one. So the
-- default partition must not be large.
CREATE FUNCTION outbox_default_is_large() RETURNS boolean LANGUAGE sql
AS $$ SELECT pg_relation_size('outbox_events_default') + pg_relation_size('outbox_published_default') > 64 * 1024 * 1024 $$;

-- Makes the next partition, unless the existing ones cover two widths from now. It returns the
-- new one's name, or '' if there is nothing to do. It returns NULL if the default partition is too
-- large: orders would wait while PostgreSQL reads it. Then new events go to the default partition,
-- and everything else works as before.
--
-- The service's role may call this and outbox_drop_partition; it may not alter tables itself. Both
-- return an error if they cannot have a lock soon, because orders wait behind a waiting lock.
CREATE FUNCTION outbox_make_partition(width interval) RETURNS text
  SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '100ms' LANGUAGE plpgsql
AS $$
DECLARE
  most   constant int := 10000; -- rows to move at most, because orders wait meanwhile
  begins timestamptz;
  first  uuid;
  after  uuid;
  early  int;
  parent text;
  made   text;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtext('outbox_prune')) THEN
    RETURN '';
  END IF;
  begins := (SELECT max(until) FROM outbox_partitions);
  IF begins >= now() + 2 * width THEN
    RETURN '';
  END IF;
  begins := greatest(begins, date_trunc('second', now() + interval '1 second'));
  first := outbox_first_id(begins);
  after := outbox_first_id(begins + width);
  SELECT count(*) INTO early FROM (SELECT FROM outbox_events_default WHERE id >= first AND id < after LIMIT most + 1) e;
  IF early > most OR outbox_default_is_large() THEN
    RETURN NULL;
  END IF;
  -- An INSERT that has chosen the default partition and waits for its lock would fail afterwards.
  -- The first lock makes it wait before it chooses. ONLY leaves out the partitions: autovacuum may
  -- work on one of them for long. MarkPublished locks the two tables in the same order.
  LOCK TABLE ONLY outbox_published, ONLY outbox_events IN SHARE ROW EXCLUSIVE MODE;
  LOCK TABLE outbox_published_default, outbox_events_default IN ACCESS EXCLUSIVE MODE;
  FOREACH parent IN ARRAY ARRAY['outbox_published', 'outbox_events'] LOOP
    made := parent || to_char(begins AT TIME ZONE 'UTC', '_YYYYMMDD_HH24MISS');
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', made, parent);
    -- Clocks that are fast may already have put events of this range into the default partition.
    EXECUTE format('WITH early AS (DELETE FROM %I WHERE id >= %L AND id < %L RETURNING *) INSERT INTO %I SELECT * FROM early',
                   parent || '_default', first, after, made);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, made, first, after);
  END LOOP;
  RETURN made;
END $$;

-- The events of a partition that must stay: those in the queue, and those that were published or
-- discarded within the retention. It returns at most 10,001: with more than 10,000 the partition is
-- not dropped.
CREATE FUNCTION outbox_unfinished(p outbox_partitions, retention interval) RETURNS uuid[] LANGUAGE plpgsql
AS $$
DECLARE
  ids uuid[];
BEGIN
  EXECUTE format('SELECT array_agg(id) FROM (
    SELECT id FROM outbox_queue WHERE id >= $1 AND id < $2
    UNION ALL SELECT id FROM outbox_discarded WHERE id >= $1 AND id < $2 AND discarded_at >= now() - $3
    UNION ALL SELECT id FROM %I WHERE published_at >= now() - $3 LIMIT 10001) e', p.published)
  INTO ids USING p.first_id, p.end_id, retention;
  RETURN coalesce(ids, '{}');
END $$;

-- Drops the oldest partition whose whole range is older than the retention, and returns its name,
-- or NULL. The time in an id is from a replica's clock, so the database's own times decide which
-- events may go. The events that must stay move to the default partition.
CREATE FUNCTION outbox_drop_partition(retention interval) RETURNS text
  SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '100ms' LANGUAGE plpgsql
AS $$
DECLARE
  most constant int := 10000; -- rows to move at most, because orders wait meanwhile
  old  outbox_partitions;
  stay uuid[];
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtext('outbox_prune')) THEN
    RETURN NULL;
  END IF;
  FOR old IN SELECT * FROM outbox_partitions WHERE until <= now() - retention ORDER BY first_id LOOP
    CONTINUE WHEN cardinality(outbox_unfinished(old, retention)) > most;
    -- From now on no event of the partition can be marked, so the list of those that stay is final.
    EXECUTE format('LOCK TABLE %I, %I IN SHARE MODE', old.published, old.events);
    stay := outbox_unfinished(old, retention);
    CONTINUE WHEN cardinality(stay) > most;
    DELETE FROM outbox_discarded WHERE id >= old.first_id AND id < old.end_id AND id <> ALL (stay);
    -- MarkPublished locks the two tables in this order.
    EXECUTE format('ALTER TABLE outbox_published DETACH PARTITION %I', old.published);
    EXECUTE format('ALTER TABLE outbox_events DETACH PARTITION %I', old.events);
    EXECUTE format('INSERT INTO outbox_events OVERRIDING SYSTEM VALUE SELECT * FROM %I WHERE id = ANY ($1)', old.events) USING stay;
    EXECUTE format('INSERT INTO outbox_published SELECT * FROM %I WHERE id = ANY ($1)', old.published) USING stay;
    EXECUTE format('DROP TABLE %I, %I', old.published, old.events);
    RETURN old.events;
  END LOOP;
  RETURN NULL;
END $$;

-- Turns large default partitions into normal ones, which the janitor drops later, and makes new
-- default partitions. So new partitions can be made again. It reads the whole default partitions,
-- and orders wait meanwhile. So only the owner may call it, after no partition was made for long.
CREATE FUNCTION outbox_empty_default() RETURNS text SET search_path = public, pg_temp LANGUAGE plpgsql
AS $$
DECLARE
  first  uuid := (SELECT end_id FROM outbox_partitions ORDER BY end_id DESC LIMIT 1);
  after  uuid := outbox_first_id(now());
  parent text;
  part   text;
  made   text;
BEGIN
  IF first >= after OR NOT outbox_default_is_large() THEN
    RETURN NULL;
  END IF;
  LOCK TABLE outbox_published, outbox_events IN ACCESS EXCLUSIVE MODE;
  first := coalesce(first, (SELECT id FROM outbox_events_default ORDER BY id LIMIT 1));
  FOREACH parent IN ARRAY ARRAY['outbox_published', 'outbox_events'] LOOP
    part := parent || '_default';
    made := parent || to_char(outbox_id_time(first) AT TIME ZONE 'UTC', '_YYYYMMDD_HH24MISS');
    EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, part);
    EXECUTE format('ALTER TABLE %I RENAME TO %I', part, made);
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
    EXECUTE format('WITH others AS (DELETE FROM %I WHERE id < %L OR id >= %L RETURNING *) INSERT INTO %I SELECT * FROM others',
                   made, first, after, part);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, made, first, after);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I DEFAULT', parent, part);
  END LOOP;
  RETURN made;
END $$;

REVOKE EXECUTE ON FUNCTION outbox_make_partition, outbox_drop_partition, outbox_empty_default FROM PUBLIC;
SELECT outbox_empty_default();
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
LOCK TABLE outbox_events, outbox_published IN ACCESS EXCLUSIVE MODE;
DROP FUNCTION outbox_make_partition, outbox_drop_partition, outbox_empty_default, outbox_unfinished, outbox_default_is_large;

-- All events move to the default partition, which becomes the table again.
DO $$
DECLARE
  status text := pg_get_viewdef('outbox_status');
  next   bigint := nextval(pg_get_serial_sequence('outbox_events', 'seq'));
  p      record;
BEGIN
  DROP VIEW outbox_status;
  ALTER TABLE outbox_events DETACH PARTITION outbox_events_default;
  ALTER TABLE outbox_published DETACH PARTITION outbox_published_default;
  INSERT INTO outbox_events_default SELECT * FROM outbox_events;
  INSERT INTO outbox_published_default SELECT * FROM outbox_published;
  DROP VIEW outbox_partitions;
  DROP TABLE outbox_events, outbox_published;
  ALTER TABLE outbox_events_default RENAME TO outbox_events;
  ALTER TABLE outbox_published_default RENAME TO outbox_published;
  EXECUTE format('ALTER TABLE outbox_events ALTER seq ADD GENERATED ALWAYS AS IDENTITY (START WITH %s)', next);
  FOR p IN SELECT indrelid::regclass AS "table", indexrelid::regclass AS name, indisprimary AS key
           FROM pg_index WHERE indrelid IN ('outbox_events'::regclass, 'outbox_published'::regclass) LOOP
    EXECUTE CASE WHEN p.key THEN format('ALTER INDEX %s RENAME TO %s_pkey', p.name, p.table) ELSE format('DROP INDEX %s', p.name) END;
  END LOOP;
  EXECUTE 'CREATE VIEW outbox_status AS ' || status;
END $$;
ALTER TABLE outbox_events ADD UNIQUE (aggregate_type, aggregate_id, aggregate_version);
DROP FUNCTION outbox_first_id, outbox_id_time;
-- +goose StatementEnd
