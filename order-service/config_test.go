//nolint:paralleltest // they set variables of the environment, which all tests share
package main

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/order-service/internal/relay"
)

const (
	ownDatabase = "postgres://orders:db-secret@db/orders"
	ownBroker   = "amqp://orders:mq-secret@mq/"
)

// parse reads the settings from these variables, and those without a default.
func parse(t *testing.T, variables map[string]string) (config, error) {
	t.Helper()
	for _, attribute := range settings.Attributes(config{}) {
		name := attribute.(slog.Attr).Key
		for _, name := range []string{name, name + "_FILE"} {
			t.Setenv(name, "") // so that it comes back
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("DATABASE_URL", ownDatabase)
	t.Setenv("AMQP_URL", ownBroker)
	for name, value := range variables {
		t.Setenv(name, value)
	}
	return settings.Parse(check)
}

// faults are the lines of an error, each by the variable that it begins with.
func faults(err error) map[string]bool {
	names := map[string]bool{}
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			name, _, _ := strings.Cut(line, " ")
			names[strings.TrimSuffix(name, ":")] = true
		}
	}
	return names
}

func TestTheDefaultsOfOrderService(t *testing.T) {
	got, err := parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		Shared:   settings.Shared{AppEnv: "production", DatabaseURL: ownDatabase, AMQPURL: ownBroker},
		HTTPAddr: "127.0.0.1:4000", OpsAddr: "127.0.0.1:4100",
		RelayWorkers: 2, RelayBatchSize: 500, RelayPollInterval: time.Second,
		RelayLease: time.Minute, RelayConfirmTimeout: 10 * time.Second,
		RelayMaxAttempts: 20, RelayRetryBase: time.Second, RelayRetryCap: 15 * time.Minute, OutboxRetention: 7 * 24 * time.Hour,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheRelayGetsItsSettings(t *testing.T) {
	c, err := parse(t, map[string]string{
		"RELAY_WORKERS": "3", "RELAY_BATCH_SIZE": "4", "RELAY_POLL_INTERVAL": "5s", "RELAY_LEASE": "60m",
		"RELAY_CONFIRM_TIMEOUT": "7s", "RELAY_MAX_ATTEMPTS": "8", "RELAY_RETRY_BASE": "9s", "RELAY_RETRY_CAP": "10s",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := relay.Config{
		Exchange: "outbox.events", DeadLetters: "order-service.dlx", AppID: "order-service", Workers: 3, BatchSize: 4, PollInterval: 5 * time.Second,
		Lease: time.Hour, ConfirmTimeout: 7 * time.Second, MaxAttempts: 8, RetryBase: 9 * time.Second, RetryCap: 10 * time.Second,
	}
	if got := c.relay(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// wrong values, each alone enough to stop the start.
var wrong = []struct{ name, value string }{
	{"DATABASE_URL", "db"},
	{"DATABASE_URL", "amqp://orders:x@mq/"},
	{"AMQP_URL", "mq:5672"},
	{"LOG_LEVEL", "loud"},
	{"HTTP_ADDR", "4000"},
	{"OPS_ADDR", "127.0.0.1"},
	{"RELAY_WORKERS", "0"},
	{"RELAY_WORKERS", "two"},
	{"RELAY_WORKERS", "2147483646"},
	{"RELAY_BATCH_SIZE", "1.5"},
	{"RELAY_BATCH_SIZE", "-1"},
	{"RELAY_POLL_INTERVAL", "1"},
	{"RELAY_POLL_INTERVAL", "9ms"},
	{"RELAY_LEASE", "1 minute"},
	{"RELAY_LEASE", "29s"},
	{"RELAY_CONFIRM_TIMEOUT", "x"},
	{"RELAY_CONFIRM_TIMEOUT", "0s"},
	{"RELAY_MAX_ATTEMPTS", "9223372036854775808"},
	{"RELAY_MAX_ATTEMPTS", "0"},
	{"RELAY_RETRY_BASE", "s"},
	{"RELAY_RETRY_BASE", "-1s"},
	{"RELAY_RETRY_CAP", "15 m"},
	{"RELAY_RETRY_CAP", "999ms"},
}

func TestAWrongSettingStopsTheStartByItsName(t *testing.T) {
	for _, test := range wrong {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			_, err := parse(t, map[string]string{test.name: test.value})
			if got := faults(err); len(got) != 1 || !got[test.name] {
				t.Fatalf("want one error, of %s, but got:\n%v", test.name, err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("a password is in the error: %v", err)
			}
		})
	}
}

func TestAllWrongSettingsAreReportedTogether(t *testing.T) {
	variables, want := map[string]string{}, map[string]bool{}
	for _, test := range wrong {
		if !want[test.name] {
			variables[test.name], want[test.name] = test.value, true
		}
	}
	_, err := parse(t, variables)
	if got := faults(err); !maps.Equal(got, want) {
		t.Errorf("want errors of %v, but got:\n%v", want, err)
	}
}

func TestOrderServiceTakesPublishedPasswordsInTheDemoOnly(t *testing.T) {
	published := map[string]string{
		"DATABASE_URL": "postgres://order_service:order_service@db/orders", "AMQP_URL": "amqp://outbox:outbox@mq/",
	}
	_, err := parse(t, published)
	if want := map[string]bool{"DATABASE_URL": true, "AMQP_URL": true}; !maps.Equal(faults(err), want) {
		t.Errorf("want errors of %v, but got:\n%v", want, err)
	}
	published["APP_ENV"] = "demo"
	if _, err := parse(t, published); err != nil {
		t.Errorf("the demo refuses its own passwords: %v", err)
	}
}

func TestTheDatabaseURLMayStandInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "database_url")
	if err := os.WriteFile(file, []byte("postgres://from:a-file@db/orders\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := parse(t, map[string]string{"DATABASE_URL_FILE": file})
	if err != nil || c.DatabaseURL.Reveal() != "postgres://from:a-file@db/orders" {
		t.Errorf("got %q with error %v", c.DatabaseURL.Reveal(), err)
	}
}

func TestTheLogOfTheSettingsHoldsNoPassword(t *testing.T) {
	c, err := parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("starting", settings.Attributes(c)...)
	if strings.Contains(log.String(), "secret") {
		t.Errorf("a password is in the log: %s", log.String())
	}
	for _, test := range wrong {
		if !strings.Contains(log.String(), `"`+test.name+`":`) {
			t.Errorf("%s is not in the log: %s", test.name, log.String())
		}
	}
}
