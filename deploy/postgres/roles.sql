-- The two roles of one service, in the current database:
--
--   <service>_owner  owns the database and everything in it; `migrate` runs as this role
--   <service>        the application; the service's migrations/grants.sql has its privileges
--
-- A superuser runs this once for each database. It may be run again, for new passwords for
-- example. It reads three settings: provision.service, provision.owner_password and
-- provision.password.
DO $$
DECLARE
  application text := current_setting('provision.service');
  owner       text := application || '_owner';
  thing       record;
BEGIN
  -- Roles belong to the whole server. If this runs in two databases at once, the second waits.
  LOCK TABLE pg_catalog.pg_authid IN SHARE ROW EXCLUSIVE MODE;
  FOR thing IN SELECT name FROM unnest(ARRAY[owner, application]) AS name
               WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) LOOP
    EXECUTE format('CREATE ROLE %I', thing.name);
  END LOOP;
  EXECUTE format('ALTER ROLE %I LOGIN CONNECTION LIMIT 20 PASSWORD %L', owner, current_setting('provision.owner_password'));
  -- Three replicas of order-service have 84 connections at most, and PostgreSQL has 100.
  EXECUTE format('ALTER ROLE %I LOGIN CONNECTION LIMIT 85 PASSWORD %L', application, current_setting('provision.password'));

  -- No other role may connect, and only the owner may create objects.
  EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), owner);
  EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), application);
  EXECUTE format('ALTER SCHEMA public OWNER TO %I', owner);
  REVOKE ALL ON SCHEMA public FROM PUBLIC;
  EXECUTE format('GRANT USAGE ON SCHEMA public TO %I', application);

  -- In a database from before these roles, the objects get their owner now.
  FOR thing IN
    SELECT 'TABLE' AS kind, c.oid::regclass::text AS name FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND pg_get_userbyid(c.relowner) <> owner
    UNION ALL
    SELECT 'DOMAIN', t.oid::regtype::text FROM pg_type t
    WHERE t.typnamespace = 'public'::regnamespace AND t.typtype = 'd' AND pg_get_userbyid(t.typowner) <> owner
    UNION ALL
    SELECT 'FUNCTION', p.oid::regprocedure::text FROM pg_proc p
    WHERE p.pronamespace = 'public'::regnamespace AND pg_get_userbyid(p.proowner) <> owner
  LOOP
    EXECUTE format('ALTER %s %s OWNER TO %I', thing.kind, thing.name, owner);
  END LOOP;

  -- Upper limits. The services' own limits are shorter. lock_timeout is longer than the 10 s in
  -- which the server ends the session of a machine that has vanished. So a statement that waits
  -- for that session's locks gets them, and does not fail.
  EXECUTE format('ALTER ROLE %I SET lock_timeout = ''30s''', application);
  EXECUTE format('ALTER ROLE %I SET statement_timeout = ''60s''', application);
  EXECUTE format('ALTER ROLE %I SET idle_in_transaction_session_timeout = ''60s''', application);
  -- A migration that waits for a lock delays all later statements. After it has the lock, it may
  -- take long.
  EXECUTE format('ALTER ROLE %I SET lock_timeout = ''10s''', owner);
  EXECUTE format('ALTER ROLE %I SET idle_in_transaction_session_timeout = ''60s''', owner);

  -- db_oldest_transaction_age_seconds is about the transactions of all roles. Without this
  -- grant a role sees only its own.
  EXECUTE format('GRANT pg_read_all_stats TO %I', application);
END $$;
