package outbox

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox/publish"
)

func TestTheZeroConfigWorks(t *testing.T) {
	t.Parallel()
	c := RelayConfig{}.withDefaults()
	if err := c.check(); err != nil {
		t.Error(err)
	}
	if c.Workers != 2 || c.Window != 2000 || c.Lease != 20*time.Second || c.Logger == nil || c.TracerProvider == nil {
		t.Errorf("defaults %+v", c)
	}
}

func TestNewRelayNamesTheFieldThatCannotWork(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	to := publish.Func(1, func(context.Context, publish.Message) error { return nil })
	for field, c := range map[string]RelayConfig{
		"Workers":         {Workers: -1},
		"Window":          {Window: 5001},
		"PollInterval":    {PollInterval: -time.Second},
		"Lease":           {Lease: statementTimeout - 1},
		"ConfirmTimeout":  {ConfirmTimeout: time.Nanosecond},
		"GiveUp":          {GiveUp: -1},
		"RetryBase":       {RetryBase: -time.Second},
		"RetryCap":        {RetryBase: time.Hour, RetryCap: time.Minute},
		"Retention":       {Retention: -time.Hour},
		"ShutdownTimeout": {ShutdownTimeout: -time.Second},
		"AppID":           {AppID: strings.Repeat("x", 256)},
	} {
		if _, err := NewRelay(pool, to, c); err == nil || !strings.Contains(err.Error(), "RelayConfig."+field+" ") {
			t.Errorf("%s: error %v", field, err)
		}
	}
	if _, err := NewRelay(nil, to, RelayConfig{}); err == nil {
		t.Error("no error without a pool")
	}
	if _, err := NewRelay(pool, nil, RelayConfig{}); err == nil {
		t.Error("no error without a destination")
	}
	if _, err := NewRelay(pool, to, RelayConfig{}); err != nil {
		t.Errorf("the zero value: %v", err)
	}
}
