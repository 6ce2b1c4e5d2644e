package systemtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"example.com/transactional-outbox/internal/servertest"
	"example.com/transactional-outbox/internal/servertest/process"
)

// What all tests share. Each test has databases and a virtual host of its own; one
// that stops a server starts its own.
var (
	database *servertest.PostgresServer
	broker   *servertest.RabbitMQServer
	binaries string
)

func TestMain(m *testing.M) {
	code, err := runWithServers(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "systemtest:", err)
		code = 1
	}
	os.Exit(code)
}

// together is how many tests run at a time: they mostly wait for processes, so there may
// be more than there are processors. The flag -parallel of go test has the last word.
const together = "6"

func runWithServers(m *testing.M) (code int, err error) {
	if err := flag.Set("test.parallel", together); err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "systemtest-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	// PostgreSQL is another user when the tests run as root.
	if err := os.Chmod(folder, 0o755); err != nil {
		return 0, err
	}
	if binaries, err = build(folder); err != nil {
		return 0, err
	}
	if database, err = servertest.NewPostgres(filepath.Join(folder, "postgres"), process.WithParent); err != nil {
		return 0, err
	}
	defer func() { _ = database.Close() }()
	if broker, err = servertest.NewRabbitMQ(filepath.Join(folder, "rabbitmq"), process.WithParent); err != nil {
		return 0, err
	}
	defer func() { _ = broker.Close() }()
	ctx := context.Background()
	if err := database.Start(ctx); err != nil {
		return 0, err
	}
	if err := broker.Start(ctx); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// build makes both services, with the race detector in them.
func build(folder string) (string, error) {
	return folder, goBuild("-race", "-o", folder+"/", "./order-service", "./notification-service")
}

// crashing is notification-service with crash points, under the name that run takes. It
// is built when the first test wants it.
var crashing = sync.OnceValues(func() (name string, err error) {
	const folder = "crashing/"
	err = goBuild("-race", "-tags", "crashpoints", "-o", filepath.Join(binaries, folder)+"/", "./notification-service")
	return folder + "notification-service", err
})

func goBuild(arguments ...string) error {
	command := exec.Command("go", append([]string{"build"}, arguments...)...)
	command.Dir = "../.."
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the services: %w\n%s", err, output)
	}
	return nil
}
