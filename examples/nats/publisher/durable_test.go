package publisher_test

import (
	"errors"
	"strings"
	"testing"

	"example.com/transactional-outbox/examples/nats/natstest"
	"example.com/transactional-outbox/examples/nats/publisher"
)

func TestTheSettingForSyncIsReadFromTheServer(t *testing.T) {
	t.Parallel()
	always, byDefault := natstest.Start(t, natstest.SyncAlways), natstest.Start(t, natstest.SyncDefault)
	session := connect(t, always.URL())
	if err := session.CheckDurable(t.Context(), []string{always.Monitoring}); err != nil {
		t.Error(err)
	}
	if err := session.CheckDurable(t.Context(), []string{always.Monitoring, byDefault.Monitoring}); !errors.Is(err, publisher.ErrNotDurable) {
		t.Errorf("a server with the default: %v", err)
	}
	other := connect(t, byDefault.URL())
	err := other.CheckDurable(t.Context(), []string{always.Monitoring})
	if err == nil || !strings.Contains(err.Error(), "not among those that were asked") {
		t.Errorf("another server was asked: %v", err)
	}
	always.Kill(t)
	if err := session.CheckDurable(t.Context(), []string{always.Monitoring}); err == nil {
		t.Error("no server answered, and there is no error")
	}
}
