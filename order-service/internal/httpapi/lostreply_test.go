package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"gorm.io/gorm"

	"example.com/transactional-outbox/internal/postgres/postgrestest"
	"example.com/transactional-outbox/test/servers"
)

// TestARepeatAfterALostReplyGivesOneOrder cuts the client's connection at each step, and then
// repeats the request with its key.
func TestARepeatAfterALostReplyGivesOneOrder(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(lost lostReply){
		"before the commit": func(lost lostReply) {
			release := lost.lockKeys()
			lost.send()
			lost.awaitWaiting(true)
			lost.proxy.Cut()
			<-lost.ended
			lost.awaitWaiting(false) // the service hears of it, and gives up
			release()
			lost.want(0)
		},
		"in the commit": func(lost lostReply) {
			held := servers.HoldCommits(lost, lost.database, "orders")
			lost.send()
			held.Await()
			lost.proxy.Cut()
			<-lost.ended
			held.Release()
			held.AwaitEnd()
		},
		"after the commit": func(lost lostReply) {
			lost.proxy.DropReply(func(request []byte) bool { return strings.HasPrefix(string(request), "POST") })
			lost.send()
			<-lost.ended
			lost.proxy.DropReply(nil)
			lost.want(2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, url := postgrestest.Migrated(t, schema)
			b := newFixtureOn(t, db)
			lost := lostReply{fixture: b, database: url, proxy: servers.NewProxy(t, b.api.Listener.Addr().String()), ended: make(chan struct{})}
			cut(lost)
			first, again := b.placeWith("a-key", oneMug), b.placeWith("a-key", oneMug)
			if first.status != http.StatusCreated || again.body != first.body {
				t.Errorf("then it got %d %s, and %s", first.status, first.body, again.body)
			}
			lost.want(2) // an order and its event
		})
	}
}

// lostReply is a request whose client loses its connection.
type lostReply struct {
	fixture
	database string
	proxy    *servers.Proxy
	ended    chan struct{} // the client knows that it was cut off
}

func (l lostReply) send() {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // which sends once, and not again by itself
	target := "http://" + l.proxy.Addr()
	go func() {
		defer close(l.ended)
		if status, err := placeAt(l.Context(), client, target, "a-key"); err == nil {
			l.Errorf("the reply was not lost: %d", status)
		}
	}()
}

// lockKeys blocks requests with a key until release.
func (l lostReply) lockKeys() (release func()) {
	locked, free := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- l.db.InGorm(l.Context(), func(tx *gorm.DB) error {
			if err := tx.Exec("LOCK TABLE idempotency_keys").Error; err != nil {
				return err
			}
			close(locked)
			select {
			case <-free:
			case <-l.Context().Done(): // the test has failed
			}
			return nil
		})
	}()
	<-locked
	return func() {
		close(free)
		if err := <-done; err != nil {
			l.Error(err)
		}
	}
}

// awaitWaiting waits until a request waits for the lock, or until none does.
func (l lostReply) awaitWaiting(want bool) {
	l.Helper()
	l.eventually("a request waits, or none", func() (waits bool) {
		l.read(&waits, `SELECT count(*) > 0 FROM pg_locks JOIN pg_database d ON d.oid = database
			WHERE datname = current_database() AND NOT granted`)
		return waits == want
	})
}

// want checks the number of rows.
func (l lostReply) want(rows int) {
	l.Helper()
	if n := l.countRows(); n != rows {
		l.Errorf("%d rows, want %d", n, rows)
	}
}

// placeAt places an order and returns the status of the answer.
func placeAt(ctx context.Context, client *http.Client, target, key string) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target+"/orders", strings.NewReader(oneMug))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
