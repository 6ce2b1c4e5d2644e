// Package settings reads a service's configuration from the environment. It reports all errors
// together. Secrets do not print.
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
	"time"

	"github.com/caarlos0/env/v11"

	"example.com/transactional-outbox/outbox/rabbitmq/amqpurl"
)

// Demo is the APP_ENV that accepts the passwords of this repository.
const Demo = "demo"

// Shared has the settings of both services.
type Shared struct {
	// AppEnv is "demo" or the name of a real environment. Only "demo" accepts the passwords that are
	// published in this repository.
	AppEnv string `env:"APP_ENV" envDefault:"production"`
	// DatabaseURL is the service's own PostgreSQL database.
	DatabaseURL Secret `env:"DATABASE_URL,required,notEmpty"`
	// AMQPURL is the RabbitMQ virtual host that the services share. It may name several hosts,
	// separated by commas: the nodes of one cluster. Only the commands that connect to the broker
	// need it: see CheckBroker.
	AMQPURL Secret `env:"AMQP_URL"`
	// LogLevel is debug, info, warn or error.
	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"info"`
	// AuditRetention is how long the decisions of operators are kept. At least a day.
	AuditRetention time.Duration `env:"AUDIT_RETENTION" envDefault:"8760h"`
}

// Level is the log level.
func (s Shared) Level() slog.Level { return s.LogLevel }

// Parse fills a T, a struct with env tags, from the environment. A secret may also be given as
// NAME_FILE, the path of a file with the secret. Parse returns all errors together, those of
// validate included. Each error begins with the name of its variable.
func Parse[T any](validate func(T) []error) (T, error) {
	environment := env.ToMap(os.Environ())
	unreadable := readFiles(environment)
	settings, err := env.ParseAsWithOptions[T](env.Options{Environment: environment})
	return settings, errors.Join(firstPerVariable(slices.Concat(unreadable, parseErrors[T](err), validate(settings)))...)
}

// parseErrors returns the errors of the parser. The parser names fields of T: parseErrors replaces
// them by the names of the variables.
func parseErrors[T any](err error) (errs []error) {
	all, ok := errors.AsType[env.AggregateError](err)
	if err != nil && !ok {
		return []error{err}
	}
	for _, err := range all.Errors {
		if e, ok := errors.AsType[env.ParseError](err); ok {
			field, _ := reflect.TypeFor[T]().FieldByName(e.Name)
			err = fmt.Errorf("%s: %w", variable(field), e.Err)
		} else if e, ok := errors.AsType[env.VarIsNotSetError](err); ok {
			err = fmt.Errorf("%s is not set", e.Key)
		} else if e, ok := errors.AsType[env.EmptyVarError](err); ok {
			err = fmt.Errorf("%s is empty", e.Key)
		}
		errs = append(errs, err)
	}
	return errs
}

// firstPerVariable keeps the first error of each variable. A value that cannot be parsed would
// also be out of range.
func firstPerVariable(errs []error) []error {
	reported := map[string]bool{}
	return slices.DeleteFunc(errs, func(err error) bool {
		name, _, _ := strings.Cut(err.Error(), " ")
		name = strings.TrimSuffix(strings.TrimSuffix(name, ":"), "_FILE")
		defer func() { reported[name] = true }()
		return reported[name]
	})
}

// readFiles sets NAME to the content of the file that NAME_FILE names.
func readFiles(environment map[string]string) (errs []error) {
	for _, name := range secrets {
		path, given := environment[name+"_FILE"]
		if !given {
			continue
		}
		content, err := os.ReadFile(path) //nolint:gosec // the operator names the file
		if err != nil {
			errs = append(errs, fmt.Errorf("%s_FILE: %w", name, err))
			continue
		}
		environment[name] = strings.TrimSpace(string(content))
	}
	return errs
}

// Fresh returns a function that reads the file that NAME_FILE names again: its password may have
// changed. Without such a file it returns nil.
func Fresh(name string) func() (string, error) {
	path, given := os.LookupEnv(name + "_FILE")
	if !given {
		return nil
	}
	return func() (string, error) {
		content, err := os.ReadFile(path) //nolint:gosec // the operator names the file
		return strings.TrimSpace(string(content)), err
	}
}

// secrets are the settings that may come from a file.
var secrets = []string{"DATABASE_URL", "AMQP_URL", "SMTP_URL"}

// Check returns the errors in the shared settings. A command without the broker may leave out
// AMQP_URL, but not give a wrong one.
func (s Shared) Check() []error {
	errs := slices.Concat(
		s.checkURL("DATABASE_URL", s.DatabaseURL, "postgres", "postgresql"),
		AtLeast("AUDIT_RETENTION", s.AuditRetention, 24*time.Hour),
	)
	if s.AMQPURL != "" {
		errs = append(errs, s.checkAMQPURL()...)
	}
	return errs
}

// CheckBroker returns an error if AMQP_URL is missing. It is for commands that connect to the
// broker.
func (s Shared) CheckBroker() []error {
	if s.AMQPURL == "" {
		return []error{errors.New("AMQP_URL is not set, and this command connects to the broker")}
	}
	return nil
}

// demoPasswords are published: in this repository, in its history, or in RabbitMQ's manual.
var demoPasswords = []string{
	"order_service", "order_service_owner", "order-service",
	"notification_service", "notification_service_owner", "notification-service",
	"postgres", "monitoring", "outbox", "guest",
}

func (s Shared) checkURL(name string, value Secret, schemes ...string) []error {
	u, err := url.Parse(value.Reveal())
	if err != nil || !slices.Contains(schemes, u.Scheme) {
		return []error{fmt.Errorf("%s must be a URL that starts with %s://", name, schemes[0])}
	}
	return s.checkPassword(name, u)
}

func (s Shared) checkAMQPURL() []error {
	nodes, err := amqpurl.Split(s.AMQPURL.Reveal())
	if err != nil {
		return []error{fmt.Errorf("AMQP_URL %w", err)}
	}
	return s.checkURL("AMQP_URL", Secret(nodes[0].URL), "amqp", "amqps") // all have the same password
}

func (s Shared) checkPassword(name string, u *url.URL) []error {
	published := func(password string) bool { return slices.Contains(demoPasswords, password) }
	if s.AppEnv != Demo && slices.ContainsFunc(passwords(u), published) {
		return []error{fmt.Errorf("%s has a password that is published with this repository: set your own, or APP_ENV=demo", name)}
	}
	return nil
}

// passwords returns the passwords that a client would find in u.
func passwords(u *url.URL) []string {
	found := u.Query()["password"] // PostgreSQL's clients prefer it to the one before the @
	if password, given := u.User.Password(); given {
		return append(found, password)
	}
	if strings.HasPrefix(u.Scheme, "amqp") {
		return append(found, "guest") // the client's default
	}
	return found
}

// CheckAddress returns an error if value is not host:port.
func CheckAddress(name, value string) []error {
	if _, _, err := net.SplitHostPort(value); err != nil {
		return []error{fmt.Errorf("%s must be host:port: %w", name, err)}
	}
	return nil
}

// AtLeast returns an error if value is less than least.
func AtLeast[N interface{ ~int | ~int64 }](name string, value, least N) []error {
	if value < least {
		return []error{fmt.Errorf("%s must be at least %v", name, least)}
	}
	return nil
}

// AtMost returns an error if value is more than most.
func AtMost[N interface{ ~int | ~int64 }](name string, value, most N) []error {
	if value > most {
		return []error{fmt.Errorf("%s must be at most %v", name, most)}
	}
	return nil
}

// Attributes returns the settings for the log, with the names of their variables.
func Attributes(settings any) []any {
	var attributes []any
	v := reflect.ValueOf(settings)
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous {
			attributes = append(attributes, Attributes(v.Field(i).Interface())...)
			continue
		}
		attributes = append(attributes, slog.String(variable(field), fmt.Sprint(v.Field(i).Interface())))
	}
	return attributes
}

// variable returns the name of the environment variable that fills a field.
func variable(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
	return name
}
