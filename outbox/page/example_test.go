package page_test

import (
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/page"
)

// Mount the page below /outbox/, on a listener that only operators reach.
func Example() {
	operations := func(pool *pgxpool.Pool, relay *outbox.Relay) http.Handler {
		mux := http.NewServeMux()
		p := page.New(pool, page.Config{Name: "shop", Health: relay.Health})
		mux.Handle("/outbox/", http.StripPrefix("/outbox", p))
		return mux
	}
	_ = operations
}
