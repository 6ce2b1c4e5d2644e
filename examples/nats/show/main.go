// Command show prints the messages of the stream OUTBOX_EVENTS, for the demo.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"example.com/transactional-outbox/examples/nats/publisher"
)

// limit is for the whole program.
const limit = 10 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := show(ctx, os.Getenv("NATS_URL")); err != nil {
		fmt.Fprintln(os.Stderr, "show:", err)
		os.Exit(1) //nolint:gocritic // the process ends, so nothing needs the context
	}
}

func show(ctx context.Context, url string) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, "OUTBOX_EVENTS")
	if err != nil {
		return err
	}
	for sequence := uint64(1); sequence <= stream.CachedInfo().State.LastSeq; sequence++ {
		m, err := stream.GetMsg(ctx, sequence)
		if err != nil {
			return err
		}
		fmt.Printf("   message %d: id %s\n      subject %s\n", sequence, m.Header.Get(publisher.IDHeader), m.Subject)
	}
	return nil
}
