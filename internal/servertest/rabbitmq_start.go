package servertest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"example.com/transactional-outbox/internal/servertest/port"
	"example.com/transactional-outbox/internal/servertest/process"
)

// tryStart starts epmd before the broker, which would start one of its own and leave it
// behind.
func (s *RabbitMQServer) tryStart(ctx context.Context, logged func() string) error {
	if err := s.configure(); err != nil {
		return fmt.Errorf("configure RabbitMQ: %w", err)
	}
	if err := s.startEpmd(ctx); err != nil {
		return fmt.Errorf("epmd did not start: %w", err)
	}
	if err := s.startBroker(ctx, logged); err != nil {
		return errors.Join(fmt.Errorf("RabbitMQ did not start: %w", err), s.requireEpmd())
	}
	return s.requireEpmd()
}

func (s *RabbitMQServer) startEpmd(ctx context.Context) (err error) {
	if s.epmd.Alive() {
		return nil
	}
	if s.epmd, err = s.run(s.epmdPath, &s.record.Epmd); err != nil {
		return err
	}
	return errors.Join(awaitStart(ctx, s.epmd, s.folder, s.askEpmd), s.requireEpmd())
}

// requireEpmd knows that epmd ends without a word where another one listens, which may serve
// our broker until it ends.
func (s *RabbitMQServer) requireEpmd() error {
	if !s.epmd.Alive() {
		return fmt.Errorf("epmd has ended: %w", errPortTaken)
	}
	return nil
}

// askEpmd asks for all names. The answer begins with epmd's port.
func (s *RabbitMQServer) askEpmd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", port.Address(s.record.EpmdPort))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "\x00\x01n"); err != nil {
		return err
	}
	return binary.Read(conn, binary.BigEndian, new(uint32))
}

// startBroker waits for the log too: what answers AMQP may be a broker that has taken the
// port of ours.
func (s *RabbitMQServer) startBroker(ctx context.Context, logged func() string) (err error) {
	if s.Running() {
		logged = func() string { return listens }
	} else if s.broker, err = s.run(filepath.Join(s.binaries, "rabbitmq-server"), &s.record.Broker); err != nil {
		return err
	}
	return awaitStart(ctx, s.broker, s.folder, func(ctx context.Context) error {
		if !strings.Contains(logged(), listens) {
			return errors.New("it does not listen yet")
		}
		_, err := AMQPVersion(ctx, port.Address(s.record.Port))
		return err
	})
}

// listens is what a broker logs that has its port for AMQP.
const listens = "started TCP listener on"

func (s *RabbitMQServer) run(path string, id *process.ID) (*process.Process, error) {
	cmd := exec.Command(path)
	cmd.Dir, cmd.Env = string(s.folder), s.environment()
	p, err := process.Start(cmd, s.lifetime, s.folder.log())
	if err != nil {
		return nil, err
	}
	*id = p.ID
	return p, s.folder.remember(s.record)
}
