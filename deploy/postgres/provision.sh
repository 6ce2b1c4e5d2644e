#!/bin/sh
# Runs once, when a container creates its database. See /docker-entrypoint-initdb.d in the
# image's documentation.
set -eu

# password prints the password of a URL such as postgres://user:password@host/database.
password() { sed -E 's|^[a-z]+://[^:@/]+:([^@]+)@.*|\1|' "$1"; }

# Not as arguments, because every process of the machine can read those.
PROVISION_OWNER_PASSWORD=$(password /run/secrets/owner-database-url)
PROVISION_PASSWORD=$(password /run/secrets/database-url)
export PROVISION_OWNER_PASSWORD PROVISION_PASSWORD

psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv service POSTGRES_DB
\getenv owner_password PROVISION_OWNER_PASSWORD
\getenv password PROVISION_PASSWORD
SET provision.service = :'service';
SET provision.owner_password = :'owner_password';
SET provision.password = :'password';
\i /postgres/roles.sql
-- This server belongs to the service: no other role needs the other databases.
REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC;
SQL
