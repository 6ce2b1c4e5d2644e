package command

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/settings"
)

// runShop runs a program with three commands. It returns the command that ran, with its arguments,
// and the program's output.
func runShop(t *testing.T, args ...string) (ran, out string, err error) {
	t.Helper()
	command := func(name string) Command {
		return Command{Name: name, Does: "do what " + name + " does", Run: func(_ context.Context, args []string) error {
			ran = strings.Join(append([]string{name}, args...), " ")
			return nil
		}}
	}
	var text strings.Builder
	err = run(t.Context(), "shop", []Command{command("serve"), command("migrate"), command("outbox")}, args, &text)
	return ran, text.String(), err
}

// TestTheArgumentsChooseTheCommand: the first one is the default. Help and the version run none.
func TestTheArgumentsChooseTheCommand(t *testing.T) {
	t.Parallel()
	help := []string{"  serve        do what serve does\n", "  migrate      do what migrate does\n", "  outbox       do what outbox does\n"}
	for line, want := range map[string]struct {
		ran    string
		prints []string
	}{
		"":                      {ran: "serve"},
		"migrate":               {ran: "migrate"},
		"outbox list --dry-run": {ran: "outbox list --dry-run"},
		"outbox help":           {ran: "outbox help"},
		"help":                  {prints: help},
		"-h":                    {prints: help},
		"-help":                 {prints: help},
		"--help":                {prints: help},
		"version":               {prints: []string{"shop ", "commit "}},
		"--version":             {prints: []string{"shop ", "commit "}},
	} {
		ran, out, err := runShop(t, strings.Fields(line)...)
		if ran != want.ran || (out == "") != (want.prints == nil) || err != nil {
			t.Errorf("%q ran %q, wrote %q, error %v; want %+v", line, ran, out, err, want)
		}
		for _, text := range want.prints {
			if !strings.Contains(out, text) {
				t.Errorf("%q does not print %q:\n%s", line, text, out)
			}
		}
	}
	for _, name := range []string{"srve", "SERVE", "", "--migrate"} {
		ran, _, err := runShop(t, name)
		if ran != "" || err == nil || !strings.Contains(err.Error(), `"`+name+`"`) || !strings.Contains(err.Error(), "shop help") {
			t.Errorf("%q ran %q, error %v", name, ran, err)
		}
	}
}

type config struct {
	settings.Shared

	Workers int `env:"WORKERS" envDefault:"2"`
}

// configured runs a command with settings, and returns the settings that its action got.
func configured(t *testing.T, failure error, args ...string) (got *config, err error) {
	t.Helper()
	logger := slog.Default()
	t.Cleanup(func() { slog.SetDefault(logger) })
	check := func(c config) []error { return append(c.Check(), settings.AtLeast("WORKERS", c.Workers, 1)...) }
	action := func(_ context.Context, c config) error {
		got = &c
		return failure
	}
	err = Configured("shop", check, action)(t.Context(), args)
	return got, err
}

func TestAConfiguredCommandGetsItsSettings(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://db/shop")
	t.Setenv("AMQP_URL", "amqp://shop:own@mq/")
	t.Setenv("WORKERS", "5")
	t.Setenv("LOG_LEVEL", "warn")
	failure := errors.New("the command failed")
	got, err := configured(t, failure)
	if !errors.Is(err, failure) {
		t.Errorf("error %v, want the command's", err)
	}
	if got == nil || got.Workers != 5 {
		t.Fatalf("the command got %+v", got)
	}
	if slog.Default().Enabled(t.Context(), slog.LevelInfo) || !slog.Default().Enabled(t.Context(), slog.LevelWarn) {
		t.Error("the log does not have the level of the settings")
	}
}

// TestAConfiguredCommandDoesNotStart with arguments, or with wrong settings. All of these are named.
func TestAConfiguredCommandDoesNotStart(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://db/shop")
	t.Setenv("AMQP_URL", "amqp://shop:own@mq/")
	got, err := configured(t, nil, "--force")
	if got != nil || err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("performed with %+v, error %v; want none, and an error of --force", got, err)
	}
	t.Setenv("DATABASE_URL", "")
	t.Setenv("WORKERS", "none")
	got, err = configured(t, nil)
	if got != nil || err == nil || !strings.Contains(err.Error(), "DATABASE_URL") || !strings.Contains(err.Error(), "WORKERS") {
		t.Errorf("performed with %+v, error %v; want none, and an error of DATABASE_URL and WORKERS", got, err)
	}
}
