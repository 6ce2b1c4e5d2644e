package operate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
)

// Replay the events of one topic that failed more than an hour ago.
func ExampleOperator_Replay() {
	replay := func(ctx context.Context, pool *pgxpool.Pool) error {
		operator := operate.New(pool)
		now, err := operator.Now(ctx)
		if err != nil {
			return err
		}
		f := operate.Filter{Status: operate.Failed, Topic: "order.created", Before: now.Add(-time.Hour)}
		by := operate.NewDecision("ann", operate.CLI, f.String())
		for after := uuid.Nil; ; {
			page, err := operator.List(ctx, f, after, 500)
			if err != nil || len(page) == 0 {
				return err
			}
			result, err := operator.Replay(ctx, by, operate.IDsOf(page))
			if err != nil {
				return err
			}
			for _, refusal := range result.Refused {
				fmt.Println(refusal)
			}
			after = page[len(page)-1].ID
		}
	}
	_ = replay
}

// Publish again what the broker has lost since yesterday.
func ExampleOperator_Republish() {
	republish := func(ctx context.Context, pool *pgxpool.Pool, session publish.Session) error {
		operator := operate.New(pool)
		now, err := operator.Now(ctx)
		if err != nil {
			return err
		}
		r, err := operator.Republish(ctx, operate.Window{Since: now.Add(-24 * time.Hour), Until: now}, uuid.Nil)
		if err != nil {
			return err
		}
		r.AppID = "order-service"
		if err := r.Send(ctx, operate.NewDecision("ann", operate.CLI, "--since 24h"), session, nil); err != nil {
			return fmt.Errorf("%d of %d sent; go on after %s: %w", r.Sent, r.Total, r.After, err)
		}
		return nil
	}
	_ = republish
}
