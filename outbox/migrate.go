package outbox

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/internal/migrate"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Migrations returns the migrations of the tables, in the format of goose, for programs that apply
// all migrations with one tool. The file schema.sql explains the tables.
func Migrations() fs.FS {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name of the folder is a constant
	}
	return files
}

// UseSchema puts the tables of a pool's outbox and inbox into a schema of their own: it puts the
// schema before the pool's search_path, and so before the schemas of your tables. A search_path of the
// role or the database does not count any more. Call it before pgxpool.NewWithConfig. Then the schema
// holds for [Migrate], [Append], relays, inboxes and operators with this pool. Migrate makes the
// schema. A transaction of another pool needs the schema in its search_path, too. With gorm and
// database/sql, use the same kind of pool:
//
//	db := stdlib.OpenDBFromPool(pool) // database/sql, from github.com/jackc/pgx/v5/stdlib
//	gorm.Open(postgres.New(postgres.Config{Conn: db}))
//
// PgBouncer refuses or ignores this setting. Behind it, set it for the role: ALTER ROLE … SET
// search_path.
func UseSchema(config *pgxpool.Config, schema string) {
	params := config.ConnConfig.RuntimeParams
	params["search_path"] = pgx.Identifier{schema}.Sanitize() + ", " + cmp.Or(params["search_path"], `"$user", public`)
}

// Migrate makes the tables of the outbox, or brings them up to date, in the schema that the pool's
// search_path names first. If that does not exist, Migrate makes it. If the path begins with "$user",
// as by default, it is the first one that exists and that the role may use. Migrate may be called at
// each start, and by several replicas at the same time: one of them migrates, and the others wait. It
// opens two connections with the pool's configuration, which do not count in MaxConns. Its lock
// belongs to a session, so they must not go through a pooler that shares sessions, such as PgBouncer
// in its transaction mode.
//
// The role needs the right to create tables in the schema, or to create the schema.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	if err := migrate.Up(ctx, pool, "outbox", Migrations()); err != nil {
		return fmt.Errorf("migrating the outbox: %w", err)
	}
	return nil
}
