package outboxcli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
)

// fakeBroker takes messages, and refuses one topic.
type fakeBroker struct {
	sent    []string
	refuses string
}

func newRepublish(t *testing.T) (fixture, *fakeBroker) {
	t.Helper()
	f, b := newFixture(t), &fakeBroker{}
	f.Broker = func() (publish.Destination, error) {
		return publish.Func(func(_ context.Context, m publish.Message) error {
			if m.Topic == b.refuses {
				return errors.New("because of " + m.AppID)
			}
			b.sent = append(b.sent, m.ID)
			return nil
		}, publish.FuncConfig{OneDestination: true, Calls: 1}), nil
	}
	return f, b
}

func TestRepublishChoosesByFlags(t *testing.T) {
	t.Parallel()
	f, b := newRepublish(t)
	ids := f.append("order.created", "order.created", "order.cancelled")
	f.publish(2, ids[0])
	f.publish(0, ids[1:]...)
	for line, want := range map[string][]string{
		"--since 1d":                         ids,
		"--since 3h --until 1h":              ids[:1],
		"--since 3h --topic order.cancelled": ids[2:],
		"--since 3h --after " + ids[0]:       ids[1:],
	} {
		args := append([]string{"republish", "--json"}, strings.Fields(line)...)
		if out := f.must(append(args, "--dry-run")...); !slices.Equal(idsOf(t, out), want) || len(b.sent) > 0 {
			t.Errorf("a dry run of %s prints %s, and sends %v", line, out, b.sent)
		}
		if out := f.must(args...); !slices.Equal(idsOf(t, out), want) || !slices.Equal(b.sent, want) {
			t.Errorf("%s sends %v, want %v", line, b.sent, want)
		}
		b.sent = nil
	}
	if d := f.decisions(); len(d) != 4 || d[0].Action != operate.Republish || !strings.HasPrefix(d[0].Filter, "--since 2") {
		t.Errorf("recorded is %+v", d)
	}
	wantAll(t, f.must("republish", "--since", "5m", "--topic", "none"), "OUTBOX_RETENTION")
	for line, hint := range map[string]string{
		"--since 1h --until 2h":                     "not before",
		"--since 1h --after " + uuid.New().String(): "leave out --after",
	} {
		if _, _, err := f.run(t.Context(), append([]string{"outbox", "republish"}, strings.Fields(line)...)...); status(err) != 1 || !strings.Contains(err.Error(), hint) {
			t.Errorf("%s: error %v", line, err)
		}
	}
}

// TestRepublishSaysHowToGoOn if the broker does not take an event of the second page.
func TestRepublishSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	f, b := newRepublish(t)
	ids := f.append(slices.Repeat([]string{"order.created"}, 700)...)
	f.publish(0, ids...)
	f.exec("UPDATE outbox_events SET topic = 'order.cancelled' WHERE id = $1", ids[650])
	b.refuses = "order.cancelled"
	_, progress, err := f.run(t.Context(), "outbox", "republish", "--since", "1h")
	if status(err) != 1 || progress != "500 of 700 (71%)\n" {
		t.Fatalf("error %v, progress %q", err, progress)
	}
	wantAll(t, err.Error(), "500 of 700 sent again, then: "+ids[650]+" (order.cancelled) was not taken: because of shop; look for a queue that is full")
	_, line, _ := strings.Cut(err.Error(), "Go on with\n  shop outbox ")
	if d := f.decisions()[0]; d.Done != 500 || d.FinishedAt != nil {
		t.Errorf("recorded is %+v", d)
	}
	b.refuses = ""
	if out := f.must(strings.Fields(line)...); out != "200 sent again.\n" {
		t.Errorf("%s prints %q", line, out)
	}
	slices.Sort(b.sent)
	if sent := slices.Compact(b.sent); len(sent) != 700 {
		t.Errorf("%d of 700 were sent", len(sent))
	}
}
