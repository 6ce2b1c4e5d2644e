package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Stream is a stream that keeps what is published to a destination.
type Stream struct {
	Name        string
	Destination string
	Replicas    int
	MaxAge      time.Duration // 0: messages stay for ever
	MaxBytes    int64         // 0: as much as the account may store
	Dedupe      time.Duration // how long the ids of messages are remembered
}

// config returns the configuration that promise P3 needs: messages are in files, they stay even
// without a consumer, and a full stream refuses new ones. By default it drops the oldest ones.
func (s Stream) config() jetstream.StreamConfig {
	limit := s.MaxBytes
	if limit == 0 {
		limit = -1
	}
	return jetstream.StreamConfig{
		Name: s.Name, Subjects: []string{s.Destination, s.Destination + ".>"},
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		Replicas: s.Replicas, MaxAge: s.MaxAge, MaxBytes: limit, Duplicates: s.Dedupe,
	}
}

// Declare creates a stream if it is missing. It returns an error if the configuration of an
// existing one loses messages. It ignores other differences.
func (s *Session) Declare(ctx context.Context, stream Stream) error {
	js, err := jetstream.New(s.conn)
	if err != nil {
		return err
	}
	if err := declare(ctx, js, stream.config()); err != nil {
		return fmt.Errorf("the stream %s: %w", stream.Name, err)
	}
	return nil
}

func declare(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	stream, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, want)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(problems(stream.CachedInfo().Config)...); err != nil {
		return PermanentError{err}
	}
	return nil
}

// problems returns why a PubAck of this stream does not mean what the relay needs.
func problems(c jetstream.StreamConfig) (errs []error) {
	check := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Storage != jetstream.FileStorage, "its storage is %s: messages are lost when the server ends", c.Storage)
	check(c.Retention == jetstream.InterestPolicy, "its retention is %s: without a consumer it confirms messages and drops them", c.Retention)
	check(c.Discard != jetstream.DiscardNew, "its discard policy is %s: when it is full, it drops messages that nobody has read", c.Discard)
	check(c.MaxMsgsPerSubject > 0 && !c.DiscardNewPerSubject, "its max_msgs_per_subject is %d, without discard_new_per_subject: "+
		"an order's next event drops one that nobody has read", c.MaxMsgsPerSubject)
	check(c.NoAck, "it has no_ack: it confirms nothing")
	check(c.PersistMode == jetstream.AsyncPersistMode, "its persist mode is async: it confirms messages before they are written")
	return errs
}
