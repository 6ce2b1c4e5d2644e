package publisher_test

import (
	"fmt"
	"testing"

	"example.com/transactional-outbox/examples/nats/natstest"
	"example.com/transactional-outbox/examples/nats/publisher"
	"example.com/transactional-outbox/outbox/publish"
)

// BenchmarkPublish shows what the sync of each message costs.
func BenchmarkPublish(b *testing.B) {
	for name, sync := range map[string]string{"always": natstest.SyncAlways, "default": natstest.SyncDefault} {
		for _, size := range []int{1, 500} {
			b.Run(fmt.Sprintf("sync=%s/batch=%d", name, size), func(b *testing.B) { benchmark(b, sync, size) })
		}
	}
}

func benchmark(b *testing.B, sync string, size int) {
	session, err := publisher.Connect(publisher.Config{URL: natstest.Start(b, sync).URL()})
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	if err := session.Declare(b.Context(), publisher.Stream{Name: "EVENTS", Destination: "events", Replicas: 1}); err != nil {
		b.Fatal(err)
	}
	p, err := session.NewPublisher(size)
	if err != nil {
		b.Fatal(err)
	}
	published := 0
	for b.Loop() {
		batch := make([]publish.Message, size)
		for i := range batch {
			batch[i] = message("events", fmt.Sprint(published))
			published++
		}
		for _, r := range publish.All(p, batch, limit) {
			if r.Outcome != publish.Confirmed {
				b.Fatal(r.Err)
			}
		}
	}
	b.ReportMetric(float64(published)/b.Elapsed().Seconds(), "messages/s")
}
