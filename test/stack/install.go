package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"example.com/transactional-outbox/test/browser/chromium"
)

// install installs the server's package on Debian and Ubuntu, if the user is root and has not
// forbidden it.
func (s *stack) install(ctx context.Context, k kind) error {
	if !mayInstall() {
		return fmt.Errorf("%s is neither running nor installed; install it (on Debian and Ubuntu: "+
			"sudo apt-get install %s; with Homebrew: brew install %s), or set %s to one that runs",
			k.name, k.packageName, brewFormula[k.packageName], k.variable)
	}
	return s.installPackage(ctx, k.packageName)
}

var brewFormula = map[string]string{"postgresql": "postgresql@18", "rabbitmq-server": "rabbitmq"}

// browser installs the browser for the tests of the page in the same way, unless there is one. It
// needs too many libraries to be used without an installation.
func (s *stack) browser(ctx context.Context, _ []string) error {
	_, err := chromium.Find()
	switch {
	case err == nil:
		return nil
	case mayInstall():
		return s.installPackage(ctx, chromium.Package)
	case os.Getenv(noInstall) != "":
		s.logf("%v. %s is set, so these tests are skipped", err, noInstall)
		return nil
	default:
		return fmt.Errorf("%w; %s=1 skips these tests", err, noInstall)
	}
}

func mayInstall() bool {
	_, err := exec.LookPath("apt-get")
	return err == nil && os.Geteuid() == 0 && os.Getenv(noInstall) == ""
}

func (s *stack) installPackage(ctx context.Context, name string) error {
	s.logf("installing the package %s with apt-get, which takes a minute or two (%s=1 forbids it)", name, noInstall)
	if err := s.apt(ctx, "update", "-q"); err != nil {
		return err
	}
	return s.apt(ctx, "install", "-q", "-y", "--no-install-recommends", name)
}

func (s *stack) apt(ctx context.Context, args ...string) error {
	apt := exec.CommandContext(ctx, "apt-get", args...)
	apt.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	apt.Stdout, apt.Stderr = s.log, s.log
	if err := apt.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w; its messages are above", args[0], err)
	}
	return nil
}
