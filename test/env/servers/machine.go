package servers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
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

// ErrUnreachable means that the user postgres cannot enter a folder. This happens to root, below
// a home folder that other users cannot enter.
var ErrUnreachable = errors.New("PostgreSQL does not run as root, and the user postgres cannot reach this folder")

// unprivileged returns the user as whom PostgreSQL runs when we are root, because PostgreSQL
// refuses to run as root. It returns nil when we are another user.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// changeOwner gives a folder to another user, and checks that this user can enter it.
func changeOwner(path string, as *syscall.Credential) error {
	if as == nil {
		return nil
	}
	if err := os.Chown(path, int(as.Uid), int(as.Gid)); err != nil {
		return err
	}
	enter := exec.Command("test", "-x", path)
	enter.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if err := enter.Run(); err != nil {
		return fmt.Errorf("%w: %s", ErrUnreachable, path)
	}
	return nil
}
