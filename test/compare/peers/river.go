package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"example.com/transactional-outbox/test/compare/shop"
)

// riverOutbox inserts a job for each event, in the order's transaction. The job publishes the
// event.
//
// Source: River, a job queue on PostgreSQL: its README, and the comments of river.Config. The code
// of the worker is ours: it publishes with mandatory, and waits for the confirm.
//
// Settings: 100 workers, as in River's README. The others are its defaults, also the 25 attempts,
// except these, which make a row short:
//
//   - The pause before a retry is a tenth: 0.1 s, 1.6 s, 8.1 s, instead of 1 s, 16 s, 81 s.
//   - JobTimeout is 6 s instead of 1 m: also a tenth.
//   - RescueStuckJobsAfter is 9 s instead of 1 h. It must be longer than JobTimeout.
//
// River looks for stuck jobs each 30 s, and replaces a dead leader after 15 to 21 s. These times
// have no setting.
//
// Right: job and order are committed together. A job that fails, or whose process dies, runs again.
// But River does not promise the order of jobs: many workers take them. (Sequences are in River
// Pro, which is not free.) And a job is discarded after its last attempt.
type riverOutbox struct {
	client *river.Client[pgx.Tx]
}

func newRiver(ctx context.Context, s *shop.Shop) (outbox, error) {
	driver := riverpgxv5.New(s.DB)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	config := &river.Config{
		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
		Workers:              river.NewWorkers(),
		Logger:               slog.Default(),
		JobTimeout:           river.JobTimeoutDefault / 10,
		RescueStuckJobsAfter: 9 * time.Second,
		RetryPolicy:          &tenthOfDefault{},
		SoftStopTimeout:      2 * shop.ConfirmTimeout,
	}
	p := &publisher{url: s.AMQPURL, channels: 100}
	river.AddWorker(config.Workers, river.WorkFunc(func(ctx context.Context, job *river.Job[publishArgs]) error {
		return p.publish(ctx, message(job.Args))
	}))
	client, err := river.NewClient(driver, config)
	return riverOutbox{client}, err
}

// publishArgs are the arguments of a job.
type publishArgs message

func (publishArgs) Kind() string { return "publish" }

func (o riverOutbox) append(ctx context.Context, tx pgx.Tx, m message) error {
	_, err := o.client.InsertTx(ctx, tx, publishArgs(m), nil)
	return err
}

func (o riverOutbox) start(ctx context.Context) error { return o.client.Start(ctx) }

func (o riverOutbox) stop() { <-o.client.Stopped() }

// tenthOfDefault is River's retry policy with a tenth of its pauses.
type tenthOfDefault struct{ river.DefaultClientRetryPolicy }

func (p *tenthOfDefault) NextRetry(job *rivertype.JobRow) time.Time {
	now := time.Now()
	return now.Add(p.DefaultClientRetryPolicy.NextRetry(job).Sub(now) / 10)
}
