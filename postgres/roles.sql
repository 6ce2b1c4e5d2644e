-- The two roles of one service, in the database that this runs in:
--
--   <service>_owner  owns the database and what is in it; `migrate` runs as this role
--   <service>        the application: what it may do is in the service's migrations/grants.sql
--
-- For a superuser, once for each database; again, it changes what has changed. It reads
-- three settings: provision.service, provision.owner_password, provision.password.
DO $$
DECLARE
  application text := current_setting('provision.service');
  owner       text := application || '_owner';
  thing       record;
BEGIN
  -- Roles belong to the whole server: of two databases at once, the second waits here.
  LOCK TABLE pg_catalog.pg_authid IN SHARE ROW EXCLUSIVE MODE;
  FOR thing IN SELECT name FROM unnest(ARRAY[owner, application]) AS name
               WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) LOOP
    EXECUTE format('CREATE ROLE %I', thing.name);
  END LOOP;
  EXECUTE format('ALTER ROLE %I LOGIN CONNECTION LIMIT 20 PASSWORD %L', owner, current_setting('provision.owner_password'));
  -- Three replicas of order-service have 72 connections at most, and PostgreSQL has 100.
  EXECUTE format('ALTER ROLE %I LOGIN CONNECTION LIMIT 80 PASSWORD %L', application, current_setting('provision.password'));

  -- Nobody else comes in, and nobody but the owner makes anything.
  EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), owner);
  EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), application);
  EXECUTE format('ALTER SCHEMA public OWNER TO %I', owner);
  REVOKE ALL ON SCHEMA public FROM PUBLIC;
  EXECUTE format('GRANT USAGE ON SCHEMA public TO %I', application);

  -- A database from before there were roles: its tables get their owner now.
  FOR thing IN
    SELECT 'TABLE' AS kind, c.oid::regclass::text AS name FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND pg_get_userbyid(c.relowner) <> owner
    UNION ALL
    SELECT 'DOMAIN', t.oid::regtype::text FROM pg_type t
    WHERE t.typnamespace = 'public'::regnamespace AND t.typtype = 'd' AND pg_get_userbyid(t.typowner) <> owner
  LOOP
    EXECUTE format('ALTER %s %s OWNER TO %I', thing.kind, thing.name, owner);
  END LOOP;

  -- The last bounds; the services' own are shorter. A lock is waited for longer than the
  -- 10 s in which the server ends the session of a machine that has vanished: what that one
  -- had in hand is then free, and nobody has given up on it.
  EXECUTE format('ALTER ROLE %I SET lock_timeout = ''30s''', application);
  EXECUTE format('ALTER ROLE %I SET statement_timeout = ''60s''', application);
  EXECUTE format('ALTER ROLE %I SET idle_in_transaction_session_timeout = ''60s''', application);
  -- A migration that waits for a lock holds up all who come after it. What it does once it
  -- has the lock may take its time.
  EXECUTE format('ALTER ROLE %I SET lock_timeout = ''10s''', owner);
  EXECUTE format('ALTER ROLE %I SET idle_in_transaction_session_timeout = ''60s''', owner);

  -- db_oldest_transaction_age_seconds is about everybody's transactions, and without this a
  -- role sees only its own.
  EXECUTE format('GRANT pg_read_all_stats TO %I', application);
END $$;
