package deadletter

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"
)

// keyBytes is how much of the hash a key has. Nobody gains by finding two messages with one key:
// a [Change] counts them.
const keyBytes = 16

// keyOf returns a key that names a dead letter while it is in the queue. The message id cannot: it
// may be empty, and two messages may have the same. The key is a hash over what does not change
// when the message is given back to the queue. Messages that are equal in all of it have the same
// key.
func keyOf(l DeadLetter, body []byte) string {
	failed := ""
	if l.FailedAt != nil {
		failed = l.FailedAt.Format(time.RFC3339Nano)
	}
	hash := sha256.New()
	for _, part := range []string{l.ID, l.RoutingKey, l.Code, l.Reason, failed, strconv.FormatInt(l.Retries, 10)} {
		// The length first: "a", "bc" is not "ab", "c".
		_, _ = hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = hash.Write([]byte(part))
	}
	_, _ = hash.Write(body)
	return hex.EncodeToString(hash.Sum(nil)[:keyBytes])
}

// Item returns what names the dead letter in the record of a decision: its message id, or its key
// if it has none.
func (l DeadLetter) Item() string {
	if l.ID == "" {
		return "key:" + l.Key
	}
	return l.ID
}
