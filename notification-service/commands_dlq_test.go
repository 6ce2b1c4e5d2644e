package main

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/notification-service/internal/operate"
)

func TestAnOperatorGetsOneSession(t *testing.T) {
	t.Parallel()
	c := config{Shared: settings.Shared{AMQPURL: settings.Secret(servertest.BrokerURL(t))}}
	sessions := 0
	err := c.onceConnected(t.Context(), func(_ context.Context, s operate.Session) error {
		sessions++
		_, err := s.Browse("test." + rand.Text())
		return err
	})
	if sessions != 1 || !errors.Is(err, rabbitmq.ErrNoQueue) {
		t.Errorf("%d sessions, error %v", sessions, err)
	}
}
