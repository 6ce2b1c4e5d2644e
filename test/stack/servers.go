package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"example.com/transactional-outbox/test/servers"
)

// servers prints shell commands that export the URLs of PostgreSQL and RabbitMQ. It prints both or
// none, because eval in a shell would not notice that the second one failed.
func (s *stack) servers(ctx context.Context, _ []string) error {
	addresses, err := s.provide(ctx)
	if err != nil {
		return err
	}
	if err := s.save(); err != nil {
		return err
	}
	for _, k := range kinds {
		_, err = fmt.Fprintf(s.out, "export %s=%s\n", k.testVariable, shellQuoted(addresses[k.name]))
	}
	return err
}

// provide returns the URLs of running servers by their kind. What is neither running nor installed is
// installed, all of it at once, so that a person is asked only once.
func (s *stack) provide(ctx context.Context) (addresses map[string]string, err error) {
	addresses, missing, err := s.findOrStart(ctx)
	if err != nil || len(missing) == 0 {
		return addresses, err
	}
	if err := s.install(ctx, missing...); err != nil {
		return nil, err
	}
	addresses, missing, err = s.findOrStart(ctx) // the package may have started a server
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%s is installed, and its programs are not found", missing[0])
	}
	return addresses, err
}

// findOrStart returns the servers that run now, and the packages of those that are not installed.
func (s *stack) findOrStart(ctx context.Context) (addresses map[string]string, missing []string, err error) {
	addresses = map[string]string{}
	for _, k := range kinds {
		address := s.find(ctx, k)
		if address == "" {
			address, err = s.startPrivate(ctx, k)
		}
		if errors.Is(err, servers.ErrNotInstalled) {
			s.logf("%s is neither running nor installed: set %s to one that runs, or install it", k.name, k.variable)
			missing, err = append(missing, k.packageName), nil
		}
		if err != nil {
			return nil, nil, err
		}
		addresses[k.name] = address
	}
	return addresses, missing, nil
}

// find returns the URL of the configured server if it answers, else "".
func (s *stack) find(ctx context.Context, k kind) string {
	if os.Getenv(privateOnly) != "" {
		return ""
	}
	address := cmp.Or(os.Getenv(k.variable), k.defaultURL)
	version, err := k.probe(ctx, address)
	if err != nil {
		s.logf("%s at %s cannot be used: %v", k.name, redacted(address), err)
		return ""
	}
	s.logf("%s %s answers at %s", k.name, version, redacted(address))
	s.state.Found[k.name] = redacted(address) // for the output of down
	return address
}

// startPrivate starts this checkout's private server, if it is not running.
func (s *stack) startPrivate(ctx context.Context, k kind) (string, error) {
	var err error
	for _, folder := range s.foldersFor(k) {
		var address string
		address, err = s.startIn(ctx, folder, k)
		if !errors.Is(err, servers.ErrUnreachable) {
			return address, err
		}
		delete(s.state.Private, k.name)
		s.logf("%v", err)
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
		s.logf("a private %s runs at %s", k.name, redacted(address))
	} else {
		s.logf("starting a private %s at %s, in %s", k.name, redacted(address), folder)
	}
	// Before the start, so that down also stops a server that does not become ready.
	s.state.Private[k.name] = folder
	if err := s.save(); err != nil {
		return "", err
	}
	err = server.Start(ctx)
	if moved := server.URL(k.home); moved != address {
		s.logf("%s is at %s, because its port was taken", k.name, redacted(moved))
		address = moved
	}
	return address, err
}

func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an invalid URL"
	}
	return u.Redacted()
}

func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
