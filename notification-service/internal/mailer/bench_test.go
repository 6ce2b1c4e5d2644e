package mailer

import (
	"testing"
	"time"

	"example.com/transactional-outbox/notification-service/internal/mailer/mailertest"
	"example.com/transactional-outbox/outbox/publish"
)

// BenchmarkPublish sends over 8 kept connections to a server on this machine, in windows of 64.
func BenchmarkPublish(b *testing.B) {
	secure, trusted := certificate()
	for name, server := range map[string]*mailertest.Server{
		"plain": {}, "STARTTLS and login": {TLS: secure}, "5 ms": {OnDot: func(string) error { time.Sleep(5 * time.Millisecond); return nil }},
	} {
		b.Run(name, func(b *testing.B) {
			login := map[bool]string{true: "shop:secret@"}[server.TLS != nil]
			p := newPublisher(b, newDestination(b, "smtp://"+login+server.Start(b), 8, func(d *Destination) { d.tls.RootCAs = trusted }))
			window := make(chan struct{}, 64)
			messages := spread(b.N, 10)
			b.ResetTimer()
			for i := range messages {
				window <- struct{}{}
				p.Publish(b.Context(), messages[i:i+1], func(_ int, r publish.Result) {
					if r.Outcome != publish.Confirmed {
						b.Errorf("%s (%v)", names[r.Outcome], r.Err)
					}
					<-window
				})
			}
			for range cap(window) {
				window <- struct{}{}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "e-mails/s")
		})
	}
}
