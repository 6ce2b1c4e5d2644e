package outboxcli_test

import (
	"strings"
	"testing"
)

// TestReplayRefusesWhatANewerEventHasSuperseded, and changes the others.
func TestReplayRefusesWhatANewerEventHasSuperseded(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids, other := b.append("order.created", "order.cancelled"), b.append("order.created")
	b.fail(1, ids[0], other[0])
	b.exec(`WITH done AS (DELETE FROM outbox_queue WHERE id = $1 RETURNING *)
		INSERT INTO outbox_discarded (id, slot, superseded, failed_at, retry_count) SELECT id, slot, true, failed_at, retry_count FROM done`, ids[0])
	if out := b.must("show", ids[0].String()); !strings.Contains(out, "superseded at") {
		t.Errorf("it shows\n%s", out)
	}
	_, _, err := b.run("replay", ids[0].String(), other[0].String())
	if err == nil || !strings.Contains(err.Error(), ids[0].String()+" is not sent: a newer event of order ") || !strings.HasPrefix(err.Error(), "1 event ") {
		t.Errorf("error %v", err)
	}
	if got := b.in("superseded"); len(got) != 1 || got[0] != ids[0] {
		t.Errorf("superseded are %v, want %v", got, ids[0])
	}
}
