package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

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
