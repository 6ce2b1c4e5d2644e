package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Args are the values of a statement's @names: each of them, and no others.
type Args map[string]any

// rewritten is a statement with $1, $2, … in the place of its @names.
type rewritten struct {
	sql   string
	names []string // in the order of the numbers
}

// known are the statements that were rewritten: to read the text at each call took 8 µs and
// 35 allocations for an event that is appended. Statements are constants, so they are few.
var known sync.Map // text → *rewritten

// RewriteQuery is what pgx calls. Names and values must fit, as with [pgx.StrictNamedArgs].
func (a Args) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, _ []any) (string, []any, error) {
	if statement, ok := known.Load(sql); ok {
		if values, fit := a.values(statement.(*rewritten)); fit {
			return statement.(*rewritten).sql, values, nil
		}
	}
	statement, err := a.rewrite(ctx, conn, sql)
	if err != nil {
		return "", nil, err
	}
	known.Store(sql, statement)
	values, _ := a.values(statement)
	return statement.sql, values, nil
}

// values are in the order of the names. They fit if there is one for each.
func (a Args) values(statement *rewritten) (values []any, fit bool) {
	if len(a) != len(statement.names) {
		return nil, false
	}
	values = make([]any, len(statement.names))
	for i, name := range statement.names {
		if values[i], fit = a[name]; !fit {
			return nil, false
		}
	}
	return values, true
}

// rewrite lets pgx read the statement, and gives it the names for values, so that it
// returns them in their order. It is also who says which name is missing.
func (a Args) rewrite(ctx context.Context, conn *pgx.Conn, sql string) (*rewritten, error) {
	named := make(pgx.StrictNamedArgs, len(a))
	for name := range a {
		named[name] = name
	}
	text, order, err := named.RewriteQuery(ctx, conn, sql, nil)
	if err != nil {
		return nil, err
	}
	statement := &rewritten{sql: text}
	for _, name := range order {
		statement.names = append(statement.names, name.(string))
	}
	return statement, nil
}
