// Command show prints the messages of the exchange outbox.events until it is ended, one on a line.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := show(ctx, os.Getenv("AMQP_URL")); err != nil {
		fmt.Fprintln(os.Stderr, "show:", err)
		os.Exit(1) //nolint:gocritic // the process exits: stop() is not needed
	}
}

func show(ctx context.Context, url string) error {
	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	messages, err := subscribe(conn)
	if err != nil {
		return err
	}
	fmt.Println("subscribed")
	for {
		select {
		case <-ctx.Done():
			return nil
		case m, open := <-messages:
			if !open {
				return fmt.Errorf("the connection to %s closed", conn.RemoteAddr())
			}
			fmt.Printf("%s  message %s  %s\n", m.RoutingKey, m.MessageId, m.Body)
		}
	}
}

func subscribe(conn *amqp.Connection) (<-chan amqp.Delivery, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.ExchangeDeclare("outbox.events", "topic", true, false, false, false, nil); err != nil {
		return nil, err
	}
	queue, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return nil, err
	}
	if err := ch.QueueBind(queue.Name, "#", "outbox.events", false, nil); err != nil {
		return nil, err
	}
	return ch.Consume(queue.Name, "", true, true, false, false, nil)
}
