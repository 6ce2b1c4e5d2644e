package main

import (
	"bytes"
	"context"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
)

// commits recognises COMMIT in the messages to PostgreSQL: by its text, or by the name of a
// prepared COMMIT.
type commits struct {
	dropping atomic.Bool
	seen     atomic.Int64

	mu    sync.Mutex
	names map[string]bool
}

// commitsPerLoss is how many commits there are for each lost reply.
const commitsPerLoss = 12

// prepareCommit matches the message Parse for a named COMMIT. The four bytes of the message's
// length may look like letters.
var prepareCommit = regexp.MustCompile(`(?s)P.{4}([0-9A-Za-z_]+)\x00(?i:commit)\x00`)

// dropsReply reports whether the proxy must drop the reply to this request.
func (c *commits) dropsReply(request []byte) bool {
	return c.isCommit(request) && c.dropping.Load() && c.seen.Add(1)%commitsPerLoss == 0
}

func (c *commits) isCommit(request []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if named := prepareCommit.FindSubmatch(request); named != nil {
		c.names[string(named[1])] = true
		return false // prepared, not executed
	}
	for name := range c.names {
		// In Bind, the name follows the portal's name, which is empty.
		if bytes.Contains(request, []byte("\x00"+name+"\x00")) {
			return true
		}
	}
	return bytes.Contains(bytes.ToLower(request), []byte("commit\x00"))
}

func (sys *system) dropCommitReplies(ctx context.Context) error {
	before := sys.droppedReplies()
	sys.commits.dropping.Store(true)
	err := sleep(ctx, sys.scaled(5*time.Second))
	sys.commits.dropping.Store(false)
	sys.injected += sys.droppedReplies() - before
	return err
}

// droppedReplies counts the replies that the proxies have dropped.
func (sys *system) droppedReplies() (n int) {
	for _, p := range sys.databaseProxies() {
		n += p.Dropped()
	}
	return n
}
