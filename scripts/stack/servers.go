package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"example.com/transactional-outbox/internal/servertest"
)

// servers prints where PostgreSQL and RabbitMQ are, in the words of a shell: both or
// nothing, because a shell's eval does not see that the second one failed.
func (s *stack) servers(ctx context.Context, _ []string) error {
	var exports strings.Builder
	for _, k := range kinds {
		address, err := s.provide(ctx, k)
		if err != nil {
			return err
		}
		fmt.Fprintf(&exports, "export %s=%s\n", k.testVariable, shellQuoted(address))
	}
	if err := s.save(); err != nil {
		return err
	}
	_, err := io.WriteString(s.out, exports.String())
	return err
}

// provide returns the URL of a server that answers: one that is there, else a private
// one, else one that is installed for it.
func (s *stack) provide(ctx context.Context, k kind) (string, error) {
	if address := s.find(ctx, k); address != "" {
		return address, nil
	}
	address, err := s.startPrivate(ctx, k)
	if !errors.Is(err, servertest.ErrNotInstalled) {
		return address, err
	}
	if err := s.install(ctx, k); err != nil {
		return "", err
	}
	// The package may have started a server itself, or not.
	if address := s.find(ctx, k); address != "" {
		return address, nil
	}
	return s.startPrivate(ctx, k)
}

// find returns the URL of the server that the environment names, if it answers.
func (s *stack) find(ctx context.Context, k kind) string {
	if os.Getenv(privateOnly) != "" {
		return ""
	}
	address := cmp.Or(os.Getenv(k.variable), k.defaultURL)
	version, err := k.probe(ctx, address)
	if err != nil {
		s.say("%s at %s cannot be used: %v", k.name, redacted(address), err)
		return ""
	}
	s.say("%s %s answers at %s", k.name, version, redacted(address))
	s.state.Found[k.name] = redacted(address) // for down, which says what it leaves
	return address
}

// startPrivate starts the server that belongs to this checkout, unless it runs already.
func (s *stack) startPrivate(ctx context.Context, k kind) (string, error) {
	var err error
	for _, folder := range s.foldersFor(k) {
		var address string
		address, err = s.startIn(ctx, folder, k)
		if !errors.Is(err, servertest.ErrUnreachable) {
			return address, err
		}
		delete(s.state.Private, k.name)
		s.say("%v", err)
	}
	return "", err
}

func (s *stack) startIn(ctx context.Context, folder string, k kind) (string, error) {
	server, err := k.open(folder)
	if err != nil {
		return "", err
	}
	delete(s.state.Found, k.name)
	address := server.URL(k.home)
	if server.Running() {
		s.say("a private %s runs at %s", k.name, redacted(address))
	} else {
		s.say("starting a private %s at %s, in %s", k.name, redacted(address), folder)
	}
	// Before it starts, so that down also ends one that does not become ready.
	s.state.Private[k.name] = folder
	if err := s.save(); err != nil {
		return "", err
	}
	err = server.Start(ctx)
	if moved := server.URL(k.home); moved != address {
		s.say("%s is at %s, since its port was taken", k.name, redacted(moved))
		address = moved
	}
	return address, err
}

func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that is no URL"
	}
	return u.Redacted()
}

func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
