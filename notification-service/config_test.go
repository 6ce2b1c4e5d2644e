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

	"example.com/transactional-outbox/internal/settings"
	"example.com/transactional-outbox/notification-service/internal/notification"
)

const (
	ownDatabase = "postgres://mails:db-secret@db/mails"
	ownBroker   = "amqp://mails:mq-secret@mq/"
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

func TestTheDefaultsOfNotificationService(t *testing.T) {
	got, err := parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		Shared:  settings.Shared{AppEnv: "production", DatabaseURL: ownDatabase, AMQPURL: ownBroker},
		OpsAddr: "127.0.0.1:4101", ConsumerWorkers: 8, ConsumerPrefetch: 32, DeliveryLimit: 50,
		MailFrom: "shop@example.com", DefaultRecipient: "guest@example.com",
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheMailerIsTheLogUntilThereIsAServer(t *testing.T) {
	tests := map[string]func(notification.Mailer) bool{
		"":                                    func(m notification.Mailer) bool { return m == notification.Log{} },
		"smtp://mail:25":                      func(m notification.Mailer) bool { _, ok := m.(*notification.SMTP); return ok },
		"smtps://shop:a-secret@mail.example/": func(m notification.Mailer) bool { _, ok := m.(*notification.SMTP); return ok },
	}
	for server, is := range tests {
		c, err := parse(t, map[string]string{"SMTP_URL": server})
		if err != nil {
			t.Fatal(err)
		}
		if mailer, err := c.mailer(); err != nil || !is(mailer) {
			t.Errorf("SMTP_URL=%q makes a %T, error %v", server, mailer, err)
		}
	}
}

// wrong values, each alone enough to stop the start.
var wrong = []struct{ name, value string }{
	{"DATABASE_URL", "db"},
	{"AMQP_URL", "mq:5672"},
	{"LOG_LEVEL", "loud"},
	{"OPS_ADDR", "127.0.0.1"},
	{"CONSUMER_WORKERS", "eight"},
	{"CONSUMER_WORKERS", "0"},
	{"CONSUMER_PREFETCH", "1e3"},
	{"CONSUMER_PREFETCH", "7"},
	{"CONSUMER_PREFETCH", "65536"},
	{"DELIVERY_LIMIT", "none"},
	{"DELIVERY_LIMIT", "0"},
	{"SMTP_URL", "mail:25"},
	{"SMTP_URL", "http://mail"},
	{"SMTP_URL", "smtp://shop:a-secret@mail:x"},
	{"MAIL_FROM", "Shop <shop@example.com>"},
	{"MAIL_FROM", "shop"},
	{"DEFAULT_RECIPIENT", "a@example.com, b@example.com"},
	{"DEFAULT_RECIPIENT", "x"},
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

func TestNotificationServiceTakesPublishedPasswordsInTheDemoOnly(t *testing.T) {
	published := map[string]string{
		"DATABASE_URL": "postgres://notification_service:notification_service@db/mails", "AMQP_URL": "amqp://outbox:outbox@mq/",
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
	if err := os.WriteFile(file, []byte("postgres://from:a-file@db/mails\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := parse(t, map[string]string{"DATABASE_URL_FILE": file})
	if err != nil || c.DatabaseURL.Reveal() != "postgres://from:a-file@db/mails" {
		t.Errorf("got %q with error %v", c.DatabaseURL.Reveal(), err)
	}
}

func TestTheLogOfTheSettingsHoldsNoPassword(t *testing.T) {
	c, err := parse(t, map[string]string{"SMTP_URL": "smtp://shop:mail-secret@mail"})
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
