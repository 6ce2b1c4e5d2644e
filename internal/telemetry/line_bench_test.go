package telemetry

import (
	"log/slog"
	"os"
	"testing"
)

// BenchmarkALine measures the cost of a log line. An order writes about three lines.
func BenchmarkALine(b *testing.B) {
	file, err := os.CreateTemp(b.TempDir(), "log")
	if err != nil {
		b.Fatal(err)
	}
	log := slog.New(withTrace{slog.NewJSONHandler(file, nil)}).With("service", "shop")
	ctx := WithTraceparent(b.Context(), traceparent)
	for b.Loop() {
		log.InfoContext(ctx, "message published", "message_id", "01a1fe72-22a3-7369-b530-6c14019fb48f", "routing_key", "order.created")
	}
}
