package mailer

import (
	"testing"

	"example.com/transactional-outbox/notification-service/internal/mailer/mailertest"
)

// BenchmarkSMTP sends over 8 kept connections to a server on this machine.
func BenchmarkSMTP(b *testing.B) {
	secure, trusted := certificate()
	for name, server := range map[string]*mailertest.Server{"plain": {}, "STARTTLS and login": {TLS: secure}} {
		b.Run(name, func(b *testing.B) {
			login := map[bool]string{true: "shop:secret@"}[server.TLS != nil]
			mailer := newMailer(b, "smtp://"+login+server.Start(b))
			mailer.tls.RootCAs = trusted
			b.SetParallelism(8)
			b.RunParallel(func(next *testing.PB) {
				for next.Next() {
					if err := mailer.Send(b.Context(), testEmail()); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "e-mails/s")
		})
	}
}
