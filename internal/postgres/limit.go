package postgres

import (
	"strconv"
	"time"
)

// StatementTimeout sets how long one statement may take. The server ends the statement then. A
// timeout of the context alone would only end the wait for it.
func StatementTimeout(limit time.Duration) Option {
	return func(o *options) {
		o.pool.ConnConfig.RuntimeParams["statement_timeout"] = strconv.FormatInt(limit.Milliseconds(), 10)
	}
}
