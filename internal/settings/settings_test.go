//nolint:paralleltest // they set environment variables, which all tests share
package settings_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/internal/settings"
)

type config struct {
	settings.Shared

	Workers int             `env:"WORKERS" envDefault:"2"`
	Poll    time.Duration   `env:"POLL" envDefault:"1s"`
	Mail    settings.Secret `env:"SMTP_URL"`
}

func check(c config) []error {
	return slices.Concat(c.Check(), settings.AtLeast("WORKERS", c.Workers, 1), settings.AtLeast("POLL", c.Poll, time.Millisecond))
}

const (
	database = "postgres://shop:db-secret@db:5432/shop?sslmode=disable"
	broker   = "amqp://shop:mq-secret@mq:5672/"
)

// setenv sets these variables of ours for the test, and unsets all others of ours.
func setenv(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, name := range []string{"APP_ENV", "LOG_LEVEL", "WORKERS", "POLL"} {
		unset(t, name)
	}
	for _, name := range []string{"DATABASE_URL", "AMQP_URL", "SMTP_URL"} {
		unset(t, name)
		unset(t, name+"_FILE")
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

// unset removes a variable. Setenv restores it when the test ends.
func unset(t *testing.T, name string) {
	t.Helper()
	t.Setenv(name, "")
	if err := os.Unsetenv(name); err != nil {
		t.Fatal(err)
	}
}

// requireFaults fails unless err has one line for each fault, and the line starts with the fault.
func requireFaults(t *testing.T, err error, faults ...string) {
	t.Helper()
	var lines []string
	if err != nil {
		lines = strings.Split(err.Error(), "\n")
	}
	if len(lines) != len(faults) {
		t.Fatalf("%d errors, want %d:\n%v", len(lines), len(faults), err)
	}
	for _, fault := range faults {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, fault) }) {
			t.Errorf("no error starts with %q:\n%v", fault, err)
		}
	}
}

func TestEveryErrorIsReportedOnceByItsVariable(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	tests := map[string]struct {
		environment map[string]string
		faults      []string
	}{
		"nothing is set": {nil, []string{"DATABASE_URL is not set"}},
		"set to nothing": {map[string]string{"DATABASE_URL": "", "AMQP_URL": ""}, []string{"DATABASE_URL is empty"}},
		"malformed, missing and out of range together": {
			map[string]string{"AMQP_URL": "http://mq/", "LOG_LEVEL": "loud", "WORKERS": "many", "POLL": "0s"},
			[]string{"DATABASE_URL is not set", "AMQP_URL must start", "LOG_LEVEL:", "WORKERS:", "POLL must be"},
		},
		"files that cannot be read": {
			map[string]string{"DATABASE_URL_FILE": missing, "AMQP_URL_FILE": missing, "WORKERS": "0"},
			[]string{"DATABASE_URL_FILE:", "AMQP_URL_FILE:", "WORKERS must be"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			setenv(t, test.environment)
			_, err := settings.Parse(check)
			requireFaults(t, err, test.faults...)
		})
	}
}

func TestASecretMayComeFromAFile(t *testing.T) {
	want := map[string]string{"DATABASE_URL": database, "AMQP_URL": broker, "SMTP_URL": "smtp://mail"}
	files := map[string]string{}
	for name, url := range want {
		files[name+"_FILE"] = filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(files[name+"_FILE"], []byte(url+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	setenv(t, files)
	c, err := settings.Parse(check)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{"DATABASE_URL": c.DatabaseURL.Reveal(), "AMQP_URL": c.AMQPURL.Reveal(), "SMTP_URL": c.Mail.Reveal()}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOnlyTheDemoTakesPublishedPasswords(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		database, broker settings.Secret
		faults           []string
	}{
		"passwords that are not published": {database, broker, nil},
		"no password for PostgreSQL":       {"postgres://shop@/shop?host=/run/postgresql", broker, nil},
		"the demo's of the other service":  {"postgresql://n:notification_service@db/n", broker, []string{"DATABASE_URL"}},
		"written with escapes":             {"postgres://o:%6frder_service@db/orders", broker, []string{"DATABASE_URL"}},
		"in the query":                     {"postgres://o:own@db/orders?password=order_service", broker, []string{"DATABASE_URL"}},
		"the broker's guest":               {database, "amqps://guest:guest@mq/", []string{"AMQP_URL"}},
		"guest, as it is the default":      {database, "amqp://mq/", []string{"AMQP_URL"}},
		"guest's, for another user":        {database, "amqp://shop@mq/", []string{"AMQP_URL"}},
		"the demo's, of three brokers":     {database, "amqp://outbox:outbox@a,b:5673,[::1]/", []string{"AMQP_URL"}},
		"three brokers":                    {database, "amqp://shop:mq-secret@a,b:5673,[::1]/", nil},
		"both":                             {"postgres://o:outbox@db/orders", "amqp://mq/", []string{"DATABASE_URL", "AMQP_URL"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := settings.Shared{AuditRetention: 8760 * time.Hour, AppEnv: "production", DatabaseURL: test.database, AMQPURL: test.broker}
			requireFaults(t, errors.Join(shared.Check()...), test.faults...)
			shared.AppEnv = "demo"
			requireFaults(t, errors.Join(shared.Check()...))
		})
	}
}

func TestAWrongHostOfAMQPURLIsAnErrorWithoutThePassword(t *testing.T) {
	t.Parallel()
	for _, wrong := range []settings.Secret{"amqp://shop:4711@a,,b/", "amqp://shop:4711@a:5672,a/", "amqp://shop:4711@a:port,b/"} {
		err := errors.Join(settings.Shared{AuditRetention: 8760 * time.Hour, AppEnv: "demo", DatabaseURL: database, AMQPURL: wrong}.Check()...)
		requireFaults(t, err, "AMQP_URL ")
		if strings.Contains(err.Error(), "4711") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// printed returns a secret as it looks in each format of a log or a message.
func printed(t *testing.T, secret settings.Secret) map[string]string {
	t.Helper()
	c := config{Shared: settings.Shared{DatabaseURL: secret, AMQPURL: secret}, Mail: secret}
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var text, object bytes.Buffer
	noTime := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey { // its digits may be those of a password
			return slog.Attr{}
		}
		return a
	}}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&text, noTime), slog.NewJSONHandler(&object, noTime)} {
		log := slog.New(handler)
		log.Info("starting", settings.Attributes(c)...)
		log.Info("starting", "config", c, "secret", secret)
	}
	return map[string]string{
		"String": secret.String(), "%q": fmt.Sprintf("%q", secret),
		"%v": fmt.Sprintf("%v", c), "%+v": fmt.Sprintf("%+v", c), "%#v": fmt.Sprintf("%#v", c),
		"JSON": string(encoded), "slog text": text.String(), "slog JSON": object.String(),
	}
}

func TestASecretDoesNotPrint(t *testing.T) {
	t.Parallel()
	tests := map[string]settings.Secret{
		"in its place":           "postgres://shop:4711@db:5432/shop?sslmode=disable",
		"in the query":           "postgres://shop@db/shop?password=4711&sslmode=disable",
		"of the client's key":    "postgres://shop@db/shop?sslpassword=4711",
		"in a malformed query":   "postgres://shop@db/shop?sslmode=disable&password=4711%",
		"with # before it":       "postgres://shop:#4711@db/shop",
		"with # in it":           "postgres://shop:1#4711@db/shop",
		"with / in it":           "amqp://shop:1/4711@mq/",
		"with ? in it":           "amqp://shop:1?4711@mq/",
		"with @ in it":           "amqp://shop:@4711@mq/",
		"with % in it":           "amqp://shop:%4711@mq/",
		"with a space":           "amqp://shop:47 4711@mq/",
		"in a string of libpq":   "host=db password=4711",
		"alone":                  "4711",
		"without a host":         "postgres://shop:4711@/shop",
		"without slashes":        "postgres:shop:4711@db",
		"of an address in IPv6":  "postgres://shop:4711@[::1]:5432/shop",
		"of several hosts":       "amqp://shop:4711@a:5672,b:5672/",
		"of hosts, with / in it": "amqp://shop:1/4711@a:5672,b:5672/",
		"of several addresses":   "amqp://shop:4711@[::1]:5672,b:5672/",
		"with @ , and / in it":   "amqp://shop:@4711,x/1@mq/",
	}
	for name, secret := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for format, text := range printed(t, secret) {
				if strings.Contains(text, "4711") {
					t.Errorf("%s shows the password: %s", format, text)
				}
				if strings.HasPrefix(format, "slog") && (!strings.Contains(text, "AMQP_URL") || !strings.Contains(text, "WORKERS")) {
					t.Errorf("%s has not every setting: %s", format, text)
				}
			}
			if !strings.Contains(secret.Reveal(), "4711") {
				t.Errorf("Reveal does not return the password: %s", secret.Reveal())
			}
		})
	}
	for secret, want := range map[settings.Secret]string{ // all but the password is shown
		"": "",
		"postgres://shop:x@db:5432/shop?sslmode=disable": "postgres://shop:xxxxx@db:5432/shop?sslmode=disable",
		"amqps://mq.example.com/vhost":                   "amqps://mq.example.com/vhost",
		"amqp://shop:x@a:5672,b:5672,c/":                 "amqp://shop:xxxxx@a:5672,b:5672,c:5672/",
	} {
		if got := secret.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestASecretFileIsReadAgain: its password has changed.
func TestASecretFileIsReadAgain(t *testing.T) {
	if settings.Fresh("DATABASE_URL") != nil {
		t.Error("without a file there is a function")
	}
	file := filepath.Join(t.TempDir(), "url")
	t.Setenv("DATABASE_URL_FILE", file)
	fresh := settings.Fresh("DATABASE_URL")
	if _, err := fresh(); err == nil {
		t.Error("no error, and no file")
	}
	for _, want := range []string{database, broker} {
		if err := os.WriteFile(file, []byte(want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := fresh(); got != want || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}
