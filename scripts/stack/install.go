package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// install gets the server's package from a Debian-like system, when we may.
func (s *stack) install(ctx context.Context, k kind) error {
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("%s is neither running nor installed; install it (on Debian and Ubuntu: "+
			"sudo apt-get install %s; with Homebrew: brew install %s), or set %s to one that runs",
			k.name, k.packageName, brewFormula[k.packageName], k.variable)
	}
	s.say("installing %s with apt-get, which takes a minute or two", k.packageName)
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
