package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/term"

	"example.com/transactional-outbox/test/browser/chromium"
)

const (
	noInstall  = "NO_INSTALL" // forbids installing packages
	yesInstall = "INSTALL"    // permits it without a question
)

// browser installs the browser for the tests of the page, unless there is one. It needs too many
// libraries to be used without an installation.
func (s *stack) browser(ctx context.Context, _ []string) error {
	if _, err := chromium.Find(); err == nil {
		return nil
	} else if os.Getenv(noInstall) != "" {
		s.logf("%v. %s is set, so these tests are skipped", err, noInstall)
		return nil
	}
	return s.install(ctx, chromium.Package)
}

// install installs packages of Debian and Ubuntu, if the user is root and agrees.
func (s *stack) install(ctx context.Context, packages ...string) error {
	names := strings.Join(packages, " ")
	_, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 || !s.agreed(ctx, names, terminal()) {
		return fmt.Errorf("nothing was installed. On Debian and Ubuntu: sudo apt-get install %s. "+
			"Homebrew's names are postgresql@18, rabbitmq and google-chrome", names)
	}
	s.logf("installing %s with apt-get, which takes a minute or two", names)
	if err := s.apt(ctx, "update", "-q"); err != nil {
		return err
	}
	return s.apt(ctx, slices.Concat([]string{"install", "-q", "-y", "--no-install-recommends"}, packages)...)
}

// terminal returns where a person can answer, or nil.
func terminal() io.Reader {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	return os.Stdin
}

// agreed asks the person at the terminal. Without one, as in CI, nobody can answer, and it agrees.
func (s *stack) agreed(ctx context.Context, names string, terminal io.Reader) bool {
	switch {
	case os.Getenv(noInstall) != "":
		return false
	case os.Getenv(yesInstall) != "", terminal == nil:
		return true
	}
	_, _ = fmt.Fprintf(s.log, "Install %s with apt-get? [y/N] ", names)
	answer := make(chan string, 1)
	go func() {
		var text string
		_, _ = fmt.Fscanln(terminal, &text) // no answer is no
		answer <- text
	}()
	select {
	case <-ctx.Done(): // Ctrl-C
		return false
	case text := <-answer:
		return slices.Contains([]string{"y", "yes"}, strings.ToLower(text))
	}
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
