package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

// All tests run this program, and share this broker. Each has a database and a virtual host of
// its own.
var (
	binary string
	broker *servers.RabbitMQServer
)

func TestMain(m *testing.M) {
	code, err := runWithBroker(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "minimal:", err)
		code = 1
	}
	os.Exit(code)
}

func runWithBroker(m *testing.M) (code int, err error) {
	folder, err := os.MkdirTemp("", "minimal-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	binary = filepath.Join(folder, "minimal")
	if output, err := exec.Command("go", "build", "-race", "-o", binary, ".").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building: %w\n%s", err, output)
	}
	if broker, err = servers.NewRabbitMQ(filepath.Join(folder, "rabbitmq"), process.WithParent); err != nil {
		return 0, err
	}
	defer func() { _ = broker.Close() }()
	if err := broker.Start(context.Background()); err != nil {
		return 0, err
	}
	return m.Run(), nil
}
