package servers

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"example.com/transactional-outbox/test/env/process"
)

// PostgresServer is a private PostgreSQL on 127.0.0.1. The superuser postgres needs no
// password.
type PostgresServer struct {
	folder   folder
	binaries string
	lifetime process.Lifetime
	settings []string
	as       *syscall.Credential // nil unless we are root
	server   *process.Process
	record   postgresRecord
}

type postgresRecord struct {
	Port   int        `json:"port"`
	Server process.ID `json:"server"`
}

// NewPostgres returns the server in this folder. It may run, be stopped, or not exist yet:
// then Start creates it. Each setting is written as in postgresql.conf.
func NewPostgres(path string, lifetime process.Lifetime, settings ...string) (*PostgresServer, error) {
	s := &PostgresServer{lifetime: lifetime, settings: settings}
	initdb, err := findBinary("initdb", postgresFolders)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w; install the package postgresql", err)
	}
	s.binaries = filepath.Dir(initdb)
	if s.as, err = unprivileged(); err != nil {
		return nil, err
	}
	if s.folder, err = openFolder(path, &s.record); err != nil {
		return nil, fmt.Errorf("open PostgreSQL's folder: %w", err)
	}
	if s.server = process.Find(s.record.Server); s.Running() {
		return s, nil
	}
	return s, choosePorts(&s.record.Port)
}

// Port returns the port. It stays the same.
func (s *PostgresServer) Port() int { return s.record.Port }

// PID returns the number of the server's process, which has started all the others.
func (s *PostgresServer) PID() int { return s.server.PID }

// Running reports whether the server's process lives.
func (s *PostgresServer) Running() bool { return s.server.Alive() }

// URL returns the connection string of one database.
func (s *PostgresServer) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: addressOf(s.record.Port)}
	return u.JoinPath(database).String() + "?sslmode=disable"
}

// Start starts the server unless it runs, and waits until it accepts connections.
func (s *PostgresServer) Start(ctx context.Context) error {
	if err := s.initialise(ctx); err != nil {
		return fmt.Errorf("create PostgreSQL's data: %w", err)
	}
	if err := s.launch(); err != nil {
		return err
	}
	if err := awaitStart(ctx, s.server, s.folder, s.connect); err != nil {
		return fmt.Errorf("PostgreSQL did not start: %w", err)
	}
	return nil
}

// Stop shuts the server down: it aborts transactions and writes everything to disk.
func (s *PostgresServer) Stop(ctx context.Context) error {
	return s.server.End(ctx, syscall.SIGINT) // PostgreSQL's fast shutdown
}

// Kill ends the server and all its processes with SIGKILL.
func (s *PostgresServer) Kill() error {
	if !s.Running() {
		return nil
	}
	// A stopped server starts no more children while we list them.
	if err := s.server.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return kill(append(s.server.Children(), s.server)...)
}

// Close ends the server and releases its port. It keeps the folder.
func (s *PostgresServer) Close() error {
	defer releasePorts(s.record.Port)
	return s.Kill()
}

// initialise creates the data unless it is there.
func (s *PostgresServer) initialise(ctx context.Context) error {
	if _, err := os.Stat(s.data()); err == nil {
		return nil
	}
	return s.createData(s.data(), func(unfinished string) *exec.Cmd {
		return exec.CommandContext(ctx, filepath.Join(s.binaries, "initdb"), "--pgdata="+unfinished,
			"--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	})
}

func (s *PostgresServer) launch() (err error) {
	if s.Running() {
		return nil
	}
	arguments := []string{
		"-D", s.data(),
		"-p", strconv.Itoa(s.record.Port),
		"-c", "listen_addresses=" + localhost,
		"-c", "unix_socket_directories=", // our path may be too long for a socket
	}
	for _, setting := range s.settings {
		arguments = append(arguments, "-c", setting)
	}
	server := exec.Command(filepath.Join(s.binaries, "postgres"), arguments...)
	server.Dir, server.SysProcAttr = s.data(), &syscall.SysProcAttr{Credential: s.as}
	if s.server, err = process.Start(server, s.lifetime, s.folder.log()); err != nil {
		return err
	}
	s.record.Server = s.server.ID
	return s.folder.writeRecord(s.record)
}

func (s *PostgresServer) data() string { return s.folder.file("data") }

func (s *PostgresServer) connect(ctx context.Context) error {
	return s.Execute(ctx, "postgres", "SELECT")
}
