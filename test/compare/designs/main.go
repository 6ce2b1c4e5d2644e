// Command designs runs one process of a design: its order side, or its consumer side.
//
//	designs NAME
//
// The comment of each design says where it comes from, what is right about it, and what it does.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"example.com/transactional-outbox/test/compare/shop"
)

// designs are the programs, by name. good-consumer is the consumer for designs of the order side.
var designs = map[string]func(context.Context, *shop.Shop) error{
	"commit-then-publish":     commitThenPublish,
	"publish-then-commit":     publishThenCommit,
	"article-poller":          articlePoller,
	"article-poller-confirms": articlePollerConfirms,
	"mark-before-confirm":     markBeforeConfirm,
	"seq-cursor":              seqCursor,
	"listen-without-poll":     listenWithoutPoll,
	"leader-advisory-lock":    leaderAdvisoryLock,
	"good-consumer":           goodConsumer,
	"library-recovery":        libraryRecovery,
	"ack-first":               ackFirst,
	"inbox-other-transaction": inboxOtherTransaction,
	"retries-main-exchange":   retriesMainExchange,
	"nack-requeue":            nackRequeue,
	"email-in-transaction":    emailInTransaction,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		slog.Error("ended", "error", err)
		os.Exit(1) //nolint:gocritic // the process exits: stop() is not needed
	}
}

func run(ctx context.Context) error {
	if len(os.Args) != 2 || designs[os.Args[1]] == nil {
		return fmt.Errorf("usage: designs NAME")
	}
	s, err := shop.Open(ctx)
	if err != nil {
		return err
	}
	return designs[os.Args[1]](ctx, s)
}
