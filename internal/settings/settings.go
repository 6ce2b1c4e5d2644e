// Package settings reads a service's configuration from the environment: once,
// with all errors together, and with secrets that do not print.
package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

// Shared are the settings that both services have.
type Shared struct {
	// AppEnv is "demo" or the name of a real environment. Only demo accepts the
	// passwords that are committed with this repository.
	AppEnv string `env:"APP_ENV" envDefault:"production"`
	// DatabaseURL is the service's own PostgreSQL database.
	DatabaseURL Secret `env:"DATABASE_URL,required,notEmpty"`
	// AMQPURL is the RabbitMQ virtual host that the services share.
	AMQPURL Secret `env:"AMQP_URL,required,notEmpty"`
	// LogLevel is debug, info, warn or error.
	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"info"`
}

// Level is the log level.
func (s Shared) Level() slog.Level { return s.LogLevel }

// Secret is a value that may hold a password. It prints as a URL without it.
type Secret string

// Reveal returns the value itself.
func (s Secret) Reveal() string { return string(s) }

// String masks the password.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	u, err := url.Parse(string(s))
	if err != nil || u.Host == "" {
		return "xxxxx"
	}
	return u.Redacted()
}

// LogValue masks the password in logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Parse fills a T, a struct with env tags, from the environment; each setting may
// also be given as NAME_FILE, the path of a file that holds it. It returns every
// error at once, those of validate included.
func Parse[T any](validate func(T) []error) (T, error) {
	environment, err := withFiles(os.Environ())
	if err != nil {
		return *new(T), err
	}
	settings, err := env.ParseAsWithOptions[T](env.Options{Environment: environment})
	if all, ok := errors.AsType[env.AggregateError](err); ok {
		return settings, errors.Join(all.Errors...)
	}
	if err != nil {
		return settings, err
	}
	return settings, errors.Join(validate(settings)...)
}

// withFiles replaces each NAME_FILE by NAME with what the file holds.
func withFiles(environ []string) (map[string]string, error) {
	environment := env.ToMap(environ)
	for name, path := range environment {
		setting, found := strings.CutSuffix(name, "_FILE")
		if !found || !slices.Contains(secrets, setting) {
			continue
		}
		content, err := os.ReadFile(path) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		environment[setting] = strings.TrimSpace(string(content))
	}
	return environment, nil
}

// secrets are the settings that may come from a file.
var secrets = []string{"DATABASE_URL", "AMQP_URL", "SMTP_URL"}

// Check returns what is wrong with the shared settings.
func (s Shared) Check() []error {
	return slices.Concat(
		s.checkURL("DATABASE_URL", s.DatabaseURL, "postgres", "postgresql"),
		s.checkURL("AMQP_URL", s.AMQPURL, "amqp", "amqps"),
	)
}

// demoPasswords are the ones that anybody can read in this repository, or in
// RabbitMQ's manual.
var demoPasswords = []string{"order_service", "notification_service", "outbox", "guest"}

func (s Shared) checkURL(name string, value Secret, schemes ...string) []error {
	u, err := url.Parse(value.Reveal())
	if err != nil || !slices.Contains(schemes, u.Scheme) {
		return []error{fmt.Errorf("%s must be a URL that starts with %s://", name, schemes[0])}
	}
	if password, _ := u.User.Password(); s.AppEnv != "demo" && slices.Contains(demoPasswords, password) {
		return []error{fmt.Errorf("%s has a password that is published with this repository: set your own, or APP_ENV=demo", name)}
	}
	return nil
}

// CheckAddress returns an error unless value is host:port.
func CheckAddress(name, value string) []error {
	if _, _, err := net.SplitHostPort(value); err != nil {
		return []error{fmt.Errorf("%s must be host:port: %w", name, err)}
	}
	return nil
}

// AtLeast returns an error unless value is least or more.
func AtLeast[N interface{ ~int | ~int64 }](name string, value, least N) []error {
	if value < least {
		return []error{fmt.Errorf("%s must be at least %v", name, least)}
	}
	return nil
}

// Attributes lists the settings for the log, by the names of their variables.
func Attributes(settings any) []any {
	var attributes []any
	v := reflect.ValueOf(settings)
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous {
			attributes = append(attributes, Attributes(v.Field(i).Interface())...)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		attributes = append(attributes, slog.String(name, fmt.Sprint(v.Field(i).Interface())))
	}
	return attributes
}
