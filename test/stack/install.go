package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// install installs the server's package on Debian and Ubuntu, if the user is root and has not
// forbidden it.
func (s *stack) install(ctx context.Context, k kind) error {
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 || os.Getenv(noInstall) != "" {
		return fmt.Errorf("%s is neither running nor installed; install it (on Debian and Ubuntu: "+
			"sudo apt-get install %s; with Homebrew: brew install %s), or set %s to one that runs",
			k.name, k.packageName, brewFormula[k.packageName], k.variable)
	}
	s.logf("installing the package %s with apt-get, which takes a minute or two (%s=1 forbids it)", k.packageName, noInstall)
	if err := s.apt(ctx, "update", "-q"); err != nil {
		return err
	}
	return s.apt(ctx, "install", "-q", "-y", "--no-install-recommends", k.packageName)
}

var brewFormula = map[string]string{"postgresql": "postgresql@18", "rabbitmq-server": "rabbitmq"}

func (s *stack) apt(ctx context.Context, args ...string) error {
	apt := exec.CommandContext(ctx, "apt-get", args...)
	apt.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	apt.Stdout, apt.Stderr = s.log, s.log
	if err := apt.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w; its messages are above", args[0], err)
	}
	return nil
}
