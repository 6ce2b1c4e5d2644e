package inbox_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/inbox"
	"example.com/transactional-outbox/outbox/internal/dbtest"
)

// TestMigrateUsesTheSchemaOfTheSearchPath: two inboxes in one database know nothing of each other,
// nor of the user's own migrations with goose.
func TestMigrateUsesTheSchemaOfTheSearchPath(t *testing.T) {
	t.Parallel()
	server := dbtest.URL(t)
	public := fixture{t, dbtest.Pool(t, server)}
	public.exec(`CREATE TABLE goose_db_version (id int, version_id bigint, is_applied boolean, tstamp timestamp);
		INSERT INTO goose_db_version VALUES (1, 0, true, now()), (2, 99, true, now()); CREATE SCHEMA one; CREATE SCHEMA two`)
	for _, schema := range []string{"one", "two"} {
		f := fixture{t, dbtest.Pool(t, server+"&search_path="+schema)}
		for range 2 {
			must(t, inbox.Migrate(t.Context(), f.pool))
		}
		f.exec("CREATE TABLE effects (id bigint GENERATED ALWAYS AS IDENTITY, message text)")
		f.handle(f.inbox("a"), "1")
		if got := f.effects(); len(got) != 1 {
			t.Errorf("effects %q in schema %s", got, schema)
		}
	}
	public.exec("DROP TABLE one.effects, two.effects")
	public.wantTables("one.processed_messages", "one.inbox_version", "public.goose_db_version", "two.processed_messages", "two.inbox_version")
}

// TestMigrateRefusesATableOfAnotherShape, and says what to do.
func TestMigrateRefusesATableOfAnotherShape(t *testing.T) {
	t.Parallel()
	f := fixture{t, dbtest.Pool(t, dbtest.URL(t))}
	f.exec("CREATE TABLE processed_messages (message_id uuid PRIMARY KEY)")
	if err := inbox.Migrate(t.Context(), f.pool); err == nil || !strings.Contains(err.Error(), "rename") {
		t.Errorf("got %v", err)
	}
	f.exec("INSERT INTO processed_messages VALUES (gen_random_uuid())") // it is as it was
}

func (f fixture) wantTables(want ...string) {
	f.Helper()
	if n := f.count(`SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')
		AND schemaname || '.' || tablename <> ALL ($1)`, want); n != 0 {
		f.Errorf("%d more tables than %q", n, want)
	}
	if n := f.count("SELECT count(*) FROM unnest($1::text[]) name WHERE to_regclass(name) IS NOT NULL", want); n != len(want) {
		f.Errorf("%d of the tables %q", n, want)
	}
}

// TestReplicasMigrateTogether, with pools of one connection.
func TestReplicasMigrateTogether(t *testing.T) {
	t.Parallel()
	server := dbtest.URL(t)
	var replicas sync.WaitGroup
	for range 4 {
		replicas.Go(func() {
			pool, err := pgxpool.New(t.Context(), server+"&pool_max_conns=1")
			if err != nil {
				t.Error(err)
				return
			}
			defer pool.Close()
			if err := inbox.Migrate(t.Context(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	replicas.Wait()
	f := fixture{t, dbtest.Pool(t, server)}
	f.wantTables("public.processed_messages", "public.inbox_version")
}
