package main

import (
	"testing"
	"time"
)

func TestARetryTierIsNamedAsPeopleWriteItsDelay(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]string{
		200 * time.Millisecond: "200ms", time.Second: "1s", 30 * time.Second: "30s", time.Minute: "1m", 90 * time.Second: "1m30s",
		5 * time.Minute: "5m", 10 * time.Minute: "10m", time.Hour: "1h", 10 * time.Hour: "10h", 61 * time.Minute: "1h1m",
	} {
		if got := retryTier(delay); got != "notification-service.retry."+want {
			t.Errorf("%s: %s", delay, got)
		}
	}
}
