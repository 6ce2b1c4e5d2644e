package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/outbox/internal/migrate"
	"example.com/transactional-outbox/outbox/internal/quietlog"
	"example.com/transactional-outbox/outbox/internal/relay"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// Relay publishes the events of an outbox to a destination.
//
//	to := rabbitmq.NewBroker(url, "outbox.events")
//	relay, err := outbox.NewRelay(pool, to, outbox.RelayConfig{})
//	group.Go(func() error { return relay.Run(ctx) })
//	// after each commit of an event:
//	relay.Wake()
//
// # The loop
//
// Each worker has a session of its own, and a window: so many events may wait for their answers.
// The relay fills it as fast as the destination answers: a slow start. As soon as half of it is
// free, the worker claims what is due and sends it. It records the outcomes as the answers come.
// Four things wake it: [Relay.Wake], a notification of another process, the time when the next event
// becomes due, and a poll in case the others are missed. The workers of a relay have about 32 MiB of
// payloads in flight, at most.
//
// # What becomes of an event, and of its topic
//
// An event is marked published only after the outcome Confirmed. After every other outcome it stays
// in the outbox. The file docs/03-confirms.md of the repository has every case.
//
//	Confirmed                    it is published; the pause of its topic ends
//	Returned                     no queue is bound: its topic pauses, and it waits for the end
//	Refused                      it is tried again after RetryBase or less, doubling to RetryCap
//	two events Refused           the topic pauses, if none was Confirmed since the first
//	no answer for SlowAfter      its topic pauses if it takes no other; then it gives up its place
//	nothing at all answered      another connection takes over; this one waits for late answers
//	none for ConfirmTimeout      it is tried again after a pause; a late confirm still counts
//	not sent, connection lost    it is due when its claim ends, and nothing is counted
//	alone, publisher closed      it is tried again as if Refused, and is sent alone the next time
//	alone, connection lost       the same; it counts from the tenth time on
//	Invalid                      it fails at once: no destination of this kind could take it
//
// A refused event fails after at least ten tries, if the first refusal since a return is more than
// GiveUp ago.
//
// A paused topic is a row of the table outbox_topics. A pause is short at first, and doubles up to
// LongestTopicPause. After each pause one event of the topic is tried, or a few, on a connection of
// their own. If one is taken, the others follow. An operator pauses topics too; see package operate.
//
// A failed event stays in the outbox until an operator replays or discards it. The later events of
// its aggregate wait for that. An event whose payload is missing fails with the code no_payload.
//
// While there is no session, or the destination asks to wait, nothing is claimed. An outage never
// ends Run. It tries to connect again, with growing pauses up to 15 s, and each message about it is
// logged at most every 10 s, or once for each attempt.
//
// # When a step dies
//
//   - After the claim: the lease ends, and another worker claims the events.
//   - After the confirm and before it is recorded: the same, and the events are published again
//     with the same ids. Consumers ignore the ids that they have already processed.
//   - Suspended for longer than its lease: the relay no longer holds the claim, so it cannot
//     reschedule or fail the events. It still records those that were confirmed.
//
// # What it does not promise
//
// It does not promise that an event is published only once, nor any order between different
// aggregates.
type Relay struct {
	relay    *relay.Relay
	config   relay.Config
	noListen bool
	pool     *pgxpool.Pool
	store    *store.Store
	others   *Waker // for the relays of other processes
	listener *listener
	running  atomic.Bool
}

// NewRelay returns a relay that does nothing until Run. It returns an error that names the field if
// the settings cannot work.
func NewRelay(pool *pgxpool.Pool, to publish.Destination, c RelayConfig) (*Relay, error) {
	switch err := checkText("AppID", c.AppID, 0); {
	case pool == nil:
		return nil, errors.New("outbox: NewRelay needs a pool")
	case to == nil:
		return nil, errors.New("outbox: NewRelay needs a destination")
	case err != nil: // otherwise each event would be failed
		return nil, fmt.Errorf("outbox: RelayConfig.%w", err)
	}
	r := &Relay{noListen: c.NoListen, pool: pool, store: store.New(pool), others: NewWaker(pool)}
	var err error
	if r.config, err = c.settings().Checked(); err != nil {
		return nil, err
	}
	r.relay = relay.New(r.store, to, r.config)
	r.listener = &listener{pool: pool, log: quietlog.New(r.config.Logger), heard: r.relay.Wake}
	r.store.Logger, r.others.Logger = r.config.Logger, r.config.Logger
	return r, nil
}

// Wake says that an event was committed. A worker of this relay then looks for events at once, and
// if all of them are busy, the relays of other processes are notified. It never blocks, and many
// calls cost no more than one. It is optional: without it, the next poll finds the event. If the
// transaction was open for longer than a second, its events may wait up to ten seconds more.
//
// Call it after the commit. Before the commit, for example in the function of pgx.BeginFunc, the
// worker looks in vain: it does not see the event, which then waits for the next poll.
func (r *Relay) Wake() {
	r.relay.Wake()
	r.others.Wake()
}

// Run publishes events until ctx ends, and keeps the tables small. When ctx ends, it settles what
// is in flight and returns nil.
//
// It returns an error only if waiting cannot help: [ErrNoSchema] if there are no tables when it
// starts, an encoding other than UTF8, row security that is active for its role, an error of the
// destination such as a wrong URL, or a second Run at the same time. While the database or the
// destination is not reachable, it waits.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("outbox: this relay runs already")
	}
	defer r.running.Store(false)
	if err := r.relay.AwaitDatabase(ctx, r.askDatabase); err != nil || ctx.Err() != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return r.store.RunJanitor(ctx, r.config.Retention, r.relay.DeletionFailed) })
	if !r.noListen {
		all.Go(func() error { return r.listener.run(ctx) })
		all.Go(func() error { return r.others.run(ctx, r.relay.Busy) })
	}
	all.Go(func() error { return r.relay.Run(ctx) })
	return all.Wait()
}

const (
	// readySQL asks whether the tables are where the search_path leads, whether the server takes
	// writes, for the two encodings, and on which tables row security is active for this role.
	readySQL = `
SELECT to_regclass('outbox_done') IS NOT NULL AND to_regclass('outbox_queue') IS NOT NULL, pg_is_in_recovery(),
       getdatabaseencoding(), pg_client_encoding(),
       (SELECT coalesce(string_agg(relname, ', '), '') FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid)
          AND relname ~ '^outbox_(events|queue|claims|topics|done)' AND row_security_active(oid))`

	readyTimeout = 5 * time.Second
)

// askDatabase returns why this relay can never work with the database, or an error that may pass.
func (r *Relay) askDatabase(ctx context.Context) (never, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var there, standby bool
	var encoding, client, hidden string
	err = r.pool.QueryRow(ctx, readySQL).Scan(&there, &standby, &encoding, &client, &hidden)
	switch {
	case err != nil:
		return nil, err
	case standby:
		return nil, errors.New("the server is a standby, which takes no writes: name the primary, or all servers and target_session_attrs=read-write")
	case encoding != migrate.Encoding:
		return fmt.Errorf("outbox: %w", migrate.EncodingError(encoding)), nil
	case client != migrate.Encoding:
		return fmt.Errorf("outbox: client_encoding is %s, which cannot carry every text: let the role and the URL leave it at UTF8", client), nil
	case !there:
		return ErrNoSchema, nil
	case hidden != "":
		return fmt.Errorf("outbox: row security is active on %s, and may hide rows: give the role BYPASSRLS, or disable it there", hidden), nil
	}
	return nil, nil
}
