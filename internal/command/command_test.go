package command

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
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

func TestTheArgumentsChooseTheCommand(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string
	}{
		"the first one is the default":     {nil, "serve"},
		"by its name":                      {[]string{"migrate"}, "migrate"},
		"what follows is for the command":  {[]string{"outbox", "list", "--dry-run"}, "outbox list --dry-run"},
		"help of a command is the command": {[]string{"outbox", "help"}, "outbox help"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran, out, err := runShop(t, test.args...)
			if ran != test.want || out != "" || err != nil {
				t.Errorf("ran %q, wrote %q, error %v; want %q", ran, out, err, test.want)
			}
		})
	}
}

func TestHelpListsEveryCommandAndRunsNone(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"help", "-h", "-help", "--help"} {
		ran, out, err := runShop(t, arg)
		if ran != "" || err != nil {
			t.Errorf("%s ran %q, error %v", arg, ran, err)
		}
		for _, name := range []string{"serve", "migrate", "outbox"} {
			line := func(line string) bool {
				return strings.HasPrefix(strings.TrimSpace(line), name+" ") && strings.HasSuffix(line, "do what "+name+" does")
			}
			if !slices.ContainsFunc(strings.Split(out, "\n"), line) {
				t.Errorf("%s does not list %s:\n%s", arg, name, out)
			}
		}
	}
}

func TestVersionIsPrintedAndNoCommandRuns(t *testing.T) {
	t.Parallel()
	for _, argument := range []string{"version", "--version"} {
		var out bytes.Buffer
		if err := run(t.Context(), "some-service", nil, []string{argument}, &out); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(out.String(), "some-service ") || !strings.Contains(out.String(), "commit ") {
			t.Errorf("%s prints %q", argument, out.String())
		}
	}
}

func TestAnUnknownCommandIsAnErrorWithAHint(t *testing.T) {
	t.Parallel()
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

func TestWrongSettingsStopACommandBeforeItStarts(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	t.Setenv("AMQP_URL", "amqp://shop:own@mq/")
	t.Setenv("WORKERS", "none")
	got, err := configured(t, nil)
	if got != nil || err == nil || !strings.Contains(err.Error(), "DATABASE_URL") || !strings.Contains(err.Error(), "WORKERS") {
		t.Errorf("performed with %+v, error %v; want none, and an error of DATABASE_URL and WORKERS", got, err)
	}
}

func TestAConfiguredCommandRefusesArguments(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://db/shop")
	t.Setenv("AMQP_URL", "amqp://shop:own@mq/")
	got, err := configured(t, nil, "--force")
	if got != nil || err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("performed with %+v, error %v; want none, and an error of --force", got, err)
	}
}
