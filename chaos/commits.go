package main

import (
	"bytes"
	"regexp"
	"sync"
	"sync/atomic"
)

// commits recognises COMMIT on its way to PostgreSQL: by its text, or by the name under
// which a connection has prepared it, which stands in for the text from then on.
type commits struct {
	losing atomic.Bool
	seen   atomic.Int64

	mu    sync.Mutex
	names map[string]bool
}

// every is how many commits there are to one whose reply is lost.
const every = 12

// preparing is the message Parse for a named COMMIT, its length included, which may look
// like a letter.
var preparing = regexp.MustCompile(`(?s)P.{4}([0-9A-Za-z_]+)\x00(?i:commit)\x00`)

// loses reports whether the reply to this request shall be lost.
func (c *commits) loses(request []byte) bool {
	return c.isIn(request) && c.losing.Load() && c.seen.Add(1)%every == 0
}

func (c *commits) isIn(request []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if named := preparing.FindSubmatch(request); named != nil {
		c.names[string(named[1])] = true
		return false // it is prepared, not executed
	}
	for name := range c.names {
		// In Bind it stands behind the portal's name, which is empty.
		if bytes.Contains(request, []byte("\x00"+name+"\x00")) {
			return true
		}
	}
	return bytes.Contains(bytes.ToLower(request), []byte("commit\x00"))
}
