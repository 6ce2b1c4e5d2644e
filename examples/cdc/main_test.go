package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"example.com/transactional-outbox/outbox/cdc/logical"
	"example.com/transactional-outbox/test/servers"
)

// shared are the servers of all tests, and the program. A test that kills or configures a server
// runs alone: it has no t.Parallel.
var shared struct {
	servers.OfPackage
	program string
}

func TestMain(m *testing.M) {
	code, err := servers.RunTests(m, "cdc", ready)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func ready(s servers.OfPackage) error {
	shared.OfPackage, shared.program = s, filepath.Join(s.Folder, "cdc")
	build := exec.Command("go", "build", "-o", shared.program, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	return setParameters(map[string]string{"max_replication_slots": "50", "max_wal_senders": "50"})
}

// setParameters restarts PostgreSQL with these parameters.
func setParameters(parameters map[string]string) error {
	return logical.Restart(context.Background(), shared.Database, parameters)
}
