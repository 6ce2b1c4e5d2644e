package servers

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

// ErrNotInstalled means that the binaries of a server are not on this machine.
var ErrNotInstalled = errors.New("not installed")

// postgresFolders are the folders of the packages of Debian, Red Hat and Homebrew.
var postgresFolders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

// rabbitMQFolders come before PATH: Debian's programs in PATH are wrappers that change to the
// user rabbitmq, who cannot write to our folders.
var rabbitMQFolders = []string{
	"/usr/lib/rabbitmq/bin",
	"/opt/homebrew/opt/rabbitmq/sbin",
	"/usr/local/opt/rabbitmq/sbin",
}

var epmdFolders = []string{"/usr/lib/erlang/erts-*/bin", "/usr/local/lib/erlang/erts-*/bin"}

// findBinary looks in the folders, then in PATH and in /usr/sbin.
func findBinary(name string, folders []string) (string, error) {
	folders = append(newestFirst(folders), "", "/usr/sbin")
	for _, folder := range folders {
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, ErrNotInstalled)
}

// newestFirst expands each pattern, and sorts the folders by version, newest first.
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
