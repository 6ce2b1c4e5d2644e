package servers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"example.com/transactional-outbox/test/servers/port"
	"example.com/transactional-outbox/test/servers/process"
)

// tryStart starts epmd before the broker. Otherwise the broker would start an epmd that survives
// it.
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
	if s.first != s {
		return s.first.startEpmd(ctx)
	}
	if s.epmd.Alive() {
		return nil
	}
	if s.epmd, err = s.run(s.epmdPath, &s.record.Epmd); err != nil {
		return err
	}
	return errors.Join(awaitStart(ctx, s.epmd, s.folder, s.askEpmd), s.requireEpmd())
}

// requireEpmd checks that our epmd runs. If another epmd uses the port, ours ends without an
// error, and our broker registers with the other one.
func (s *RabbitMQServer) requireEpmd() error {
	if !s.first.epmd.Alive() {
		return fmt.Errorf("epmd has ended: %w", errPortInUse)
	}
	return nil
}

// askEpmd asks for all names. The answer begins with epmd's port.
func (s *RabbitMQServer) askEpmd(ctx context.Context) error {
	return ask(ctx, time.Second, port.Address(s.record.EpmdPort), "\x00\x01n", func(r io.Reader) error {
		return binary.Read(r, binary.BigEndian, new(uint32))
	})
}

// startBroker also waits for a line of the log, because another broker may answer on the port.
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

// listens is logged by a broker that listens on its port for AMQP.
const listens = "started TCP listener on"

func (s *RabbitMQServer) run(path string, id *process.ID) (*process.Process, error) {
	cmd := exec.Command(path)
	cmd.Dir, cmd.Env = string(s.folder), s.environment()
	p, err := process.Start(cmd, s.lifetime, s.folder.log())
	if err != nil {
		return nil, err
	}
	*id = p.ID
	return p, s.folder.writeRecord(s.record)
}
