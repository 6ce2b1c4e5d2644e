package outboxcli_test

import (
	"strings"
	"testing"
)

// TestReplayRefusesWhatANewerEventHasOvertaken, also if the newer one is published already. The list
// of ids and --all both say so, and show says it before.
func TestReplayRefusesWhatANewerEventHasOvertaken(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids, other := b.append("order.created", "order.cancelled"), b.append("order.created")
	b.fail(1, ids[0], other[0])
	b.exec("UPDATE outbox_queue SET aggregate = NULL, aggregate_id = NULL, version = NULL WHERE failed_at IS NOT NULL")
	b.publish(0, ids[1])
	if out := b.must("show", ids[0].String()); !strings.Contains(out, "a newer event of its order has overtaken it; discard it") {
		t.Errorf("it shows\n%s", out)
	}
	if out := b.must("show", other[0].String()); !strings.Contains(out, "nothing: later events of its order do not wait for it") {
		t.Errorf("it shows\n%s", out)
	}
	for _, line := range []string{"replay --all --dry-run", "replay --all", "replay " + ids[0].String()} {
		_, _, err := b.run(strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), ids[0].String()+" is not sent: a newer event of order ") || !strings.HasPrefix(err.Error(), "1 event ") {
			t.Errorf("%s: error %v", line, err)
		}
	}
	if got := b.in("pending"); len(got) != 1 || got[0] != other[0] {
		t.Errorf("pending are %v, want %v", got, other)
	}
	if out := b.must("discard", ids[0].String()); out != "1 event discarded.\n" {
		t.Errorf("it prints %q", out)
	}
}
