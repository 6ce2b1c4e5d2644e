// Command designs runs one process of a design: its order side, or its consumer side.
//
//	designs NAME
//
// The comment of each design says where it comes from, what is right about it, and what it does.
package main

import "example.com/transactional-outbox/test/compare/shop"

// designs are the programs, by name. good-consumer is the consumer for designs of the order side.
var designs = map[string]shop.Program{
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

func main() { shop.Main(designs) }
