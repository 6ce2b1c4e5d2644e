package store

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TestTheDefaultsOfARoleDoNotMatter in each mode that gets values as text, and in one that does
// not.
func TestTheDefaultsOfARoleDoNotMatter(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for name, value := range map[string]string{
			"bytea_output": "escape", "DateStyle": "German", "default_transaction_read_only": "on", "IntervalStyle": "sql_standard",
			"default_transaction_isolation": "serializable", "TimeZone": "Asia/Kathmandu",
		} {
			t.Run(mode.String()+"/"+name, func(t *testing.T) {
				t.Parallel()
				owner := newFixture(t)
				id := owner.append("17", 1)[0]
				f := owner.with(func(c *pgxpool.Config) {
					c.ConnConfig.DefaultQueryExecMode = mode
					c.ConnConfig.RuntimeParams[name] = value
				})
				claim, err := f.store.Claim(t.Context(), "w", 10, time.Minute)
				if err != nil || len(claim.Events) != 1 || string(claim.Events[0].Payload) != `{"a": 1}` {
					t.Fatalf("claim %+v, error %v", claim, err)
				}
				f.finish(claim, id)
				must(t, f.store.Rotate(t.Context(), time.Minute))
			})
		}
	}
}

// vanishing is a connection whose client vanishes just before it sends a text: the server gets
// nothing more, not even the end.
type vanishing struct {
	net.Conn
	before string
	gone   func()
	dead   atomic.Bool
}

func (v *vanishing) Write(p []byte) (int, error) {
	if !v.dead.Load() && strings.Contains(string(p), v.before) {
		v.dead.Store(true)
		v.gone()
	}
	if v.dead.Load() {
		return len(p), nil
	}
	return v.Conn.Write(p)
}

func (v *vanishing) Close() error {
	if v.dead.Load() {
		return nil // the test closes it
	}
	return v.Conn.Close()
}

// TestP4AVanishedJanitorBlocksNobodyForLong: its host vanishes when it has truncated a slot, so
// before the commit. No relay could mark an event until the server ends the session.
func TestP4AVanishedJanitorBlocksNobodyForLong(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.publishLongAgo(1)
	gone := make(chan struct{})
	janitor := f.with(func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err == nil {
				t.Cleanup(func() { _ = conn.Close() })
			}
			return &vanishing{Conn: conn, before: "commit\x00", gone: sync.OnceFunc(func() { close(gone) })}, err
		}
	})
	var ended sync.WaitGroup
	defer ended.Wait()
	ended.Go(func() {
		_ = janitor.store.InTx(context.Background(), func(tx pgx.Tx) error {
			return truncateSlot(context.Background(), tx, time.Hour, 1)
		})
	})
	<-gone
	ids := f.appendMany(1)
	f.waitFor(func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := f.store.Settle(ctx, Settlement{Published: f.events(ids...)})
		return err == nil
	})
}
