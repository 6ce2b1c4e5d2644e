package outbox_test

import (
	"context"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
)

// catalogSQL describes all tables, columns, constraints, indexes and functions of the first schema
// of the search_path. PostgreSQL 18 has a name for each NOT NULL, which does not matter.
const catalogSQL = `
WITH mine AS (SELECT * FROM pg_class WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relname !~ '^outbox_version')
SELECT concat_ws(' ', relname, relkind, reloptions::text, pg_get_expr(relpartbound, oid), pg_get_partkeydef(oid)) FROM mine
UNION ALL
SELECT concat_ws(' ', relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull, attidentity,
                 (SELECT collname FROM pg_collation WHERE oid = attcollation), pg_get_expr(adbin, adrelid))
FROM mine JOIN pg_attribute ON attrelid = mine.oid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attnum > 0
UNION ALL SELECT concat_ws(' ', relname, conname, pg_get_constraintdef(c.oid)) FROM pg_constraint c JOIN mine ON conrelid = mine.oid WHERE contype <> 'n'
UNION ALL SELECT replace(pg_get_indexdef(mine.oid), quote_ident(current_schema()) || '.', '') FROM mine WHERE relkind IN ('i', 'I')
UNION ALL SELECT replace(pg_get_viewdef(mine.oid), quote_ident(current_schema()) || '.', '') FROM mine WHERE relkind = 'v'
UNION ALL SELECT concat_ws(' ', proname, proparallel, provolatile, proisstrict, prosrc) FROM pg_proc WHERE pronamespace = quote_ident(current_schema())::regnamespace
ORDER BY 1`

func catalog(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), catalogSQL)
	must(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	return all
}

// wantTables compares the tables of a pool with those of schema.sql.
func wantTables(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	got, want := catalog(t, pool), catalog(t, dbtest.Pool(t, migratedURL(t)))
	if len(want) < 100 {
		t.Fatalf("the catalog has only %d lines", len(want))
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("only in the migrations: %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("only in schema.sql: %s", line)
		}
	}
}

func migrate(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	must(t, outbox.Migrate(t.Context(), pool))
}

// TestMigrateMakesTheTablesOfSchemaSQL with each mode of pgx, and makes nothing more when it runs
// again, also in an older program.
func TestMigrateMakesTheTablesOfSchemaSQL(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			pool := open(t, dbtest.URL(t), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			for range 2 {
				migrate(t, pool)
				wantTables(t, pool)
			}
			_, err := pool.Exec(t.Context(), "INSERT INTO outbox_version (version_id, is_applied) VALUES (99, true)")
			must(t, err)
			migrate(t, pool)
			wantTables(t, pool)
		})
	}
	if files, err := fs.Glob(outbox.Migrations(), "*.sql"); len(files) == 0 || err != nil {
		t.Errorf("the migrations are %v, error %v", files, err)
	}
}

func open(t *testing.T, url string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	must(t, err)
	change(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// TestReplicasMigrateTogether, with pools of one connection, beside the user's own migrations by
// goose. Their sessions are killed again and again, and each tries again, as a restarted process
// does. Then all call Migrate again, which changes nothing, while others append without an error.
func TestReplicasMigrateTogether(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	owner := dbtest.Pool(t, url)
	_, err := owner.Exec(t.Context(), "CREATE SCHEMA mine")
	must(t, err)
	var replicas sync.WaitGroup
	var killing atomic.Bool
	killing.Store(true)
	each := func(schema string, migrate func(*pgxpool.Pool) error) {
		pool := open(t, url, func(c *pgxpool.Config) {
			c.MaxConns = 1
			c.ConnConfig.RuntimeParams["search_path"] = schema
		})
		replicas.Go(func() {
			for err := migrate(pool); err != nil; err = migrate(pool) {
				if !killing.Load() || t.Context().Err() != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all := func() {
		for range 8 {
			each("public", func(pool *pgxpool.Pool) error { return outbox.Migrate(t.Context(), pool) })
		}
	}
	all()
	each("mine", func(pool *pgxpool.Pool) error {
		mine := fstest.MapFS{"1_mine.sql": {Data: []byte("-- +goose Up\nCREATE TABLE mine (id int);")}}
		db := stdlib.OpenDBFromPool(pool)
		defer func() { _ = db.Close() }()
		provider, err := goose.NewProvider(goose.DialectPostgres, db, mine)
		if err == nil {
			_, err = provider.Up(t.Context())
		}
		return err
	})
	done := make(chan struct{})
	go func() {
		replicas.Wait()
		close(done)
	}()
	killed := 0
	for over := false; !over && killed < 20; {
		select {
		case <-done:
			over = true
		default:
		}
		var n int
		must(t, owner.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'`).Scan(&n))
		killed += n
	}
	<-done
	wantTables(t, owner)
	if killed == 0 {
		t.Error("nobody was killed")
	}

	killing.Store(false)
	first, appended := make(chan struct{}), make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		var err error
		for n := 0; ctx.Err() == nil && err == nil; n++ {
			if n == 1 {
				close(first)
			}
			err = pgx.BeginFunc(t.Context(), owner, func(tx pgx.Tx) error {
				return outbox.Append(t.Context(), tx, outbox.Event{Topic: "a", Payload: []byte("{}")})
			})
		}
		appended <- err
	}()
	select {
	case <-first:
		all()
	case err := <-appended:
		t.Fatal(err)
	}
	replicas.Wait()
	stop()
	must(t, <-appended)
}

// TestMigrateInSchemas that are not public, which may not be used. The user's own migrations with
// goose are in the same database.
func TestMigrateInSchemas(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	owner := dbtest.Pool(t, url)
	role := "role_" + strings.TrimPrefix(url[strings.LastIndex(url, "/")+1:strings.Index(url, "?")], "test_")
	for _, statement := range []string{
		"CREATE TABLE goose_db_version (id int, version_id bigint, is_applied boolean, tstamp timestamp)",
		"INSERT INTO goose_db_version VALUES (1, 99, true, now())",
		"REVOKE ALL ON SCHEMA public FROM PUBLIC",
		"CREATE ROLE " + role + " LOGIN",
		"CREATE SCHEMA one AUTHORIZATION " + role, `CREATE SCHEMA "Zwei!" AUTHORIZATION ` + role,
		"CREATE SCHEMA three AUTHORIZATION " + role,
	} {
		_, err := owner.Exec(t.Context(), statement)
		must(t, err)
	}
	t.Cleanup(func() {
		if _, err := owner.Exec(context.Background(), "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	for _, schema := range []string{"one", "Zwei!", "three"} {
		pool := open(t, url, func(c *pgxpool.Config) {
			c.ConnConfig.User = role
			outbox.UseSchema(c, schema)
			if schema == "three" {
				c.ConnConfig.RuntimeParams["search_path"] = "missing"
				c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
					_, err := conn.Exec(ctx, "SET search_path TO "+schema)
					return err == nil, err
				}
			}
		})
		migrate(t, pool)
		migrate(t, pool)
		wantTables(t, pool)
	}
	var versions, mine int
	err := owner.QueryRow(t.Context(), `SELECT (SELECT sum(version_id) FROM goose_db_version),
		(SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname LIKE 'outbox%')`).Scan(&versions, &mine)
	if err != nil || versions != 99 || mine != 0 {
		t.Errorf("goose's version is %d, %d tables in public, error %v", versions, mine, err)
	}
	var together sync.WaitGroup
	for range 4 { // and not in public, which is next in the search_path
		pool := open(t, url, func(c *pgxpool.Config) { outbox.UseSchema(c, `A new "one"`) })
		together.Go(func() {
			migrate(t, pool)
			wantTables(t, pool)
		})
	}
	together.Wait()
	dollar := open(t, url, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = "A$1, public" }) // folded to a$1
	migrate(t, dollar)
	wantTables(t, dollar)
	for schema, want := range map[string]string{
		"missing":     `there is no such schema: CREATE SCHEMA "missing": ERROR: permission denied`,
		`A new "one"`: `the role may not use it: GRANT USAGE, CREATE ON SCHEMA "A new ""one"""`,
	} {
		pool := open(t, url, func(c *pgxpool.Config) {
			c.ConnConfig.User = role
			outbox.UseSchema(c, schema)
		})
		if err := outbox.Migrate(t.Context(), pool); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
