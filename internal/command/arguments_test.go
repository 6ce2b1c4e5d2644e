package command

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/settings"
)

// withArguments runs a command whose parser returns this error. It returns the arguments that the
// action got, and the text on stdout and stderr.
func withArguments(t *testing.T, failure error, args ...string) (performed []string, out, log string, err error) {
	t.Helper()
	logger, stdout, stderr := slog.Default(), os.Stdout, os.Stderr
	files := [2]*os.File{}
	for i := range files {
		if files[i], err = os.CreateTemp(t.TempDir(), "output"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = files[i].Close() }()
	}
	os.Stdout, os.Stderr = files[0], files[1]
	defer func() {
		os.Stdout, os.Stderr = stdout, stderr
		slog.SetDefault(logger)
	}()

	check := func(c config) []error { return append(c.Check(), settings.AtLeast("WORKERS", c.Workers, 1)...) }
	err = WithArguments("shop", check, func(args []string) (func(context.Context, config) error, error) {
		return func(ctx context.Context, _ config) error {
			performed = args
			slog.InfoContext(ctx, "performed")
			return nil
		}, failure
	})(t.Context(), args)
	return performed, readFile(t, files[0]), readFile(t, files[1]), err
}

func readFile(t *testing.T, file *os.File) string {
	t.Helper()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestACommandWithArgumentsLogsToStderr(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://db/shop")
	t.Setenv("AMQP_URL", "amqp://shop:own@mq/")
	performed, out, log, err := withArguments(t, nil, "list", "--json")
	if err != nil || !slices.Equal(performed, []string{"list", "--json"}) {
		t.Errorf("performed with %q, error %v", performed, err)
	}
	if out != "" || !strings.Contains(log, "performed") {
		t.Errorf("stdout is %q and stderr %q", out, log)
	}
}

// TestArgumentsComeBeforeSettings, which are wrong here: help needs none, and wrong arguments are
// the first mistake.
func TestArgumentsComeBeforeSettings(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	if performed, _, _, err := withArguments(t, flag.ErrHelp, "-h"); performed != nil || err != nil {
		t.Errorf("performed with %q, error %v", performed, err)
	}
	if performed, _, _, err := withArguments(t, io.ErrUnexpectedEOF, "lst"); performed != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("performed with %q, error %v", performed, err)
	}
	if performed, _, _, err := withArguments(t, nil, "list"); performed != nil || err == nil || !strings.Contains(err.Error(), "DATABASE_URL") {
		t.Errorf("performed with %q, error %v", performed, err)
	}
}
