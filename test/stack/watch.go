package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const watchInterval = time.Second

// stages is the number of orders and events at each stage.
type stages struct {
	orders, pending, inProgress, published, failed int // in order-service's database
	consumed, sent                                 int // in notification-service's
}

// watch prints the stages, once a second, until it is interrupted.
func (s *stack) watch(ctx context.Context, _ []string) error {
	databases, err := s.openDatabases(ctx)
	if err != nil {
		return err
	}
	defer databases.close()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for line := 0; ; line++ {
		now, err := databases.stages(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if line%20 == 0 {
			fmt.Fprintln(s.out, "TIME        ORDERS  PENDING  IN PROGRESS  PUBLISHED  FAILED  CONSUMED  E-MAILED")
		}
		fmt.Fprintf(s.out, "%s  %8d %8d %12d %10d %7d %9d %9d\n", time.Now().Format(time.TimeOnly),
			now.orders, now.pending, now.inProgress, now.published, now.failed, now.consumed, now.sent)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

const (
	outboxStagesQuery = `
SELECT (SELECT count(*) FROM orders), count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'in_progress'),
       count(*) FILTER (WHERE status = 'published'), count(*) FILTER (WHERE status = 'failed')
FROM outbox_status`
	inboxStagesQuery = `
SELECT (SELECT count(*) FROM inbox_messages), (SELECT count(*) FROM outbox_published)`
)

func (d *databases) stages(ctx context.Context) (n stages, err error) {
	if err := scan(ctx, d.order, outboxStagesQuery, &n.orders, &n.pending, &n.inProgress, &n.published, &n.failed); err != nil {
		return n, fmt.Errorf("order-service's database: %w", err)
	}
	if err := scan(ctx, d.notification, inboxStagesQuery, &n.consumed, &n.sent); err != nil {
		return n, fmt.Errorf("notification-service's database: %w", err)
	}
	return n, nil
}

func scan(ctx context.Context, conn *pgx.Conn, query string, into ...any) error {
	return conn.QueryRow(ctx, query).Scan(into...)
}
