package postgres_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/postgres"
)

// likeAppendSQL has the length and the arguments of what each order executes.
var likeAppendSQL = `
WITH older AS MATERIALIZED (
  SELECT id FROM events WHERE type = @type AND aggregate = @aggregate AND version < @version` + strings.Repeat(`
    AND status NOT IN ('published', 'discarded')`, 15) + `
) INSERT INTO events SELECT @id, @type, @aggregate, @version, @key, @payload, @traceparent FROM older`

func likeAppendArgs() postgres.Args {
	return postgres.Args{
		"id": 1, "type": "order", "aggregate": 2, "version": 3, "key": "order.created", "payload": "{}", "traceparent": "",
	}
}

func BenchmarkArgs(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := likeAppendArgs().RewriteQuery(context.Background(), nil, likeAppendSQL, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestArgsStayStrictWhenTheStatementIsCached tries wrong arguments before and after the right
// ones: a statement is rewritten once, but its arguments are checked each time.
func TestArgsStayStrictWhenTheStatementIsCached(t *testing.T) {
	t.Parallel()
	const statement = "SELECT @one, @two, @one, '@three' -- of this test alone"
	for range 2 {
		for wrong, args := range map[string]postgres.Args{
			"argument two":   {"one": 1},
			"argument three": {"one": 1, "two": 2, "three": 3},
			"argument ":      {"one": 1, "four": 4}, // two is missing, and four is not used
		} {
			if _, _, err := args.RewriteQuery(t.Context(), nil, statement, nil); err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%v: error %v, want it to name the %s", args, err, wrong)
			}
		}
		got, values, err := postgres.Args{"one": 1, "two": nil}.RewriteQuery(t.Context(), nil, statement, nil)
		first := strings.Contains(got, "SELECT $1, $2, $1, '@three'") && slices.Equal(values, []any{1, nil})
		second := strings.Contains(got, "SELECT $2, $1, $2, '@three'") && slices.Equal(values, []any{nil, 1})
		if err != nil || !first && !second {
			t.Errorf("%q with %v, error %v", got, values, err)
		}
	}
	if _, values, err := postgres.Args(nil).RewriteQuery(t.Context(), nil, "SELECT 1", nil); err != nil || len(values) > 0 {
		t.Errorf("values %v, error %v, want none", values, err)
	}
}
