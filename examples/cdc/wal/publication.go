package wal

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// setupError is something that a person has to change.
type setupError struct{ text string }

func (e *setupError) Error() string { return e.text }

// table has all events of the outbox. The publication shows the rows of its partitions as its own.
const table = "outbox_events"

// checkPublication checks the server, and makes the publication if there is none.
func (c Config) checkPublication(ctx context.Context, conn *pgconn.PgConn) error {
	level, err := query(ctx, conn, "SHOW wal_level")
	if err != nil {
		return err
	}
	if level[0][0] != "logical" {
		return &setupError{"wal_level is " + level[0][0] + ": set wal_level = logical in postgresql.conf and restart PostgreSQL"}
	}
	found, err := query(ctx, conn, `
		SELECT pubinsert AND NOT pubupdate AND NOT pubdelete AND NOT pubtruncate AND pubviaroot AND NOT puballtables,
		       (SELECT string_agg(schemaname || '.' || tablename || coalesce(' WHERE ' || rowfilter, ''), ',')
		        FROM pg_publication_tables t WHERE t.pubname = p.pubname)
		FROM pg_publication p WHERE pubname = `+literal(c.Publication))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return c.createPublication(ctx, conn)
	}
	if !slices.Equal(found[0], []string{"t", "public." + table}) {
		return &setupError{fmt.Sprintf("the publication %s is not for the INSERTs on %s alone: drop it and run `cdc setup`, "+
			"or set CDC_PUBLICATION to another name", c.Publication, table)}
	}
	return nil
}

func (c Config) createPublication(ctx context.Context, conn *pgconn.PgConn) error {
	_, err := query(ctx, conn, fmt.Sprintf("CREATE PUBLICATION %s FOR TABLE public.%s WITH (publish = 'insert', publish_via_partition_root = true)",
		identifier(c.Publication), table))
	if hasCode(err, "42501") { // insufficient_privilege
		return &setupError{fmt.Sprintf("this role may not make the publication %s: run `cdc setup` as the owner of %s", c.Publication, table)}
	}
	if hasCode(err, "42710") { // duplicate_object: another process was faster
		return nil
	}
	return err
}

// explain adds what to do to an error of the server.
func explain(err error) error {
	if hasCode(err, "42501") {
		return &setupError{fmt.Sprintf("%v: ALTER ROLE … REPLICATION", err)}
	}
	return err
}
