package systemtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

func runWithServers(m *testing.M) (code int, err error) {
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
	command := exec.Command("go", "build", "-race", "-o", folder+"/", "./order-service", "./notification-service")
	command.Dir = "../.."
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the services: %w\n%s", err, output)
	}
	return folder, nil
}
