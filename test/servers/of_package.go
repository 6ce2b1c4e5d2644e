package servers

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"example.com/transactional-outbox/test/servers/process"
)

// OfPackage are private servers that the tests of one package share.
type OfPackage struct {
	Folder   string // which other users can enter, too
	Database *PostgresServer
	Broker   *RabbitMQServer
}

// RunTests starts the servers, calls ready, runs the tests of a package, and stops the servers. It
// is for a TestMain.
func RunTests(m *testing.M, name string, ready func(OfPackage) error) (code int, err error) {
	folder, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	// When the tests run as root, PostgreSQL runs as another user, who must enter the folder.
	if err := os.Chmod(folder, 0o755); err != nil {
		return 0, err
	}
	shared := OfPackage{Folder: folder}
	if shared.Database, err = NewPostgres(filepath.Join(folder, "postgres"), process.WithParent); err != nil {
		return 0, err
	}
	defer func() { _ = shared.Database.Close() }()
	if shared.Broker, err = NewRabbitMQ(filepath.Join(folder, "rabbitmq"), process.WithParent); err != nil {
		return 0, err
	}
	defer func() { _ = shared.Broker.Close() }()
	ctx := context.Background()
	for _, s := range []server{shared.Database, shared.Broker} {
		if err := s.Start(ctx); err != nil {
			return 0, err
		}
	}
	if err := ready(shared); err != nil {
		return 0, err
	}
	return m.Run(), nil
}
