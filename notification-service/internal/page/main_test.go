package page

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"example.com/transactional-outbox/internal/cli/clitest"
)

// Logged is the log of all tests; each looks for its own ids in it.
var Logged clitest.Log

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewJSONHandler(&Logged, nil)))
	goleak.VerifyTestMain(m)
}
