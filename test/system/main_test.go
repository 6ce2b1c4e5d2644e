package system

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
)

// All tests share these. Each test has its own databases and its own virtual host. A test
// that stops a server starts a private one.
var (
	sharedDatabase *servers.PostgresServer
	sharedBroker   *servers.RabbitMQServer
	binaries       string // the folder with the services' binaries
)

const repository = "../.."

func TestMain(m *testing.M) {
	code, err := runWithServers(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/system:", err)
		code = 1
	}
	os.Exit(code)
}

// parallelTests is how many tests run at a time. It may exceed the number of processors,
// because the tests mostly wait for processes. It replaces the flag -parallel of go test.
const parallelTests = "6"

func runWithServers(m *testing.M) (code int, err error) {
	if err := flag.Set("test.parallel", parallelTests); err != nil {
		return 0, err
	}
	return servers.RunTests(m, "test-system", func(shared servers.OfPackage) (err error) {
		sharedDatabase, sharedBroker = shared.Database, shared.Broker
		binaries = shared.Folder
		// Without the race detector, because it doubles the work of a start and adds a second to each
		// end. `make chaos RACE=1` runs them with it.
		if err := services.Build(context.Background(), repository, binaries); err != nil {
			return err
		}
		return makeTemplates(context.Background())
	})
}

// withCrashPoints builds notification-service with crash points, for the first test that
// needs it, and returns the name of the binary.
var withCrashPoints = sync.OnceValues(func() (name string, err error) {
	const folder = "crashing/"
	err = services.Build(context.Background(), repository, filepath.Join(binaries, folder), "-tags", "crashpoints")
	return folder + "notification-service", err
})
