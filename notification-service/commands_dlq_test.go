package main

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/settings"
	dlqcli "example.com/transactional-outbox/notification-service/internal/cli"
	"example.com/transactional-outbox/test/servers"
)

func TestAnOperatorGetsOneSession(t *testing.T) {
	t.Parallel()
	c := config{Shared: settings.Shared{AMQPURL: settings.Secret(servers.BrokerURL(t))}}
	sessions := 0
	err := c.onceConnected(t.Context(), func(_ context.Context, s dlqcli.Session) error {
		sessions++
		_, err := s.Browse("test." + rand.Text())
		return err
	})
	if sessions != 1 || !errors.Is(err, rabbitmq.ErrNoQueue) {
		t.Errorf("%d sessions, error %v", sessions, err)
	}
}
