package servertest

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// ErrNotInstalled says that this machine has no binaries of a server.
var ErrNotInstalled = errors.New("not installed")

// postgresFolders are where packages put PostgreSQL: Debian, Red Hat, Homebrew.
var postgresFolders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

// rabbitMQFolders come before PATH: there, Debian has wrappers that change to the
// user rabbitmq, who cannot write into our folders.
var rabbitMQFolders = []string{
	"/usr/lib/rabbitmq/bin",
	"/opt/homebrew/opt/rabbitmq/sbin",
	"/usr/local/opt/rabbitmq/sbin",
}

var epmdFolders = []string{"/usr/lib/erlang/erts-*/bin", "/usr/local/lib/erlang/erts-*/bin"}

// findBinary looks in the folders, then in PATH and where root's programs are.
func findBinary(name string, folders []string) (string, error) {
	folders = append(newestFirst(folders), "", "/usr/sbin")
	for _, folder := range folders {
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, ErrNotInstalled)
}

// newestFirst expands the patterns; of several versions, the newest comes first.
func newestFirst(patterns []string) []string {
	var found []string
	for _, pattern := range patterns {
		folders, _ := filepath.Glob(pattern) // the only error is a malformed pattern
		slices.SortFunc(folders, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
		found = append(found, folders...)
	}
	return found
}

var firstNumber = regexp.MustCompile(`\d+(\.\d+)?`)

func version(folder string) float64 {
	number, _ := strconv.ParseFloat(firstNumber.FindString(folder), 64)
	return number
}
