// Command emulator runs Google's fake of Pub/Sub as a process, with topics and subscriptions:
//
//	emulator -listen 127.0.0.1:8085 -project demo order-events=notifications
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"

	"example.com/transactional-outbox/examples/pubsub/fake"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8085", "the address for PUBSUB_EMULATOR_HOST; port 0 is any free one")
	project := flag.String("project", "demo", "the project of the topics")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: emulator [flags] TOPIC=SUBSCRIPTION ...")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *project, flag.Args()); err != nil {
		log.Fatal(err) //nolint:gocritic // the process ends, so the signals need no restoring
	}
}

func run(ctx context.Context, listen, project string, topics []string) error {
	server := fake.Start(listen, project)
	defer func() { _ = server.Close() }()
	for _, t := range topics {
		topic, subscription, ok := strings.Cut(t, "=")
		if !ok {
			return fmt.Errorf("%s: want TOPIC=SUBSCRIPTION", t)
		}
		if err := server.CreateTopic(ctx, topic); err != nil {
			return err
		}
		if err := server.Subscribe(ctx, topic, subscription); err != nil {
			return err
		}
	}
	fmt.Printf("PUBSUB_EMULATOR_HOST=%s\n", server.Addr)
	<-ctx.Done()
	return nil
}
