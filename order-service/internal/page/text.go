package page

import (
	"time"

	"example.com/transactional-outbox/internal/cli"
)

const eventNoun cli.Noun = "event"

func countNoun(n int) string { return eventNoun.Count(n) }

// formatTime is for times within a sentence.
func formatTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") + " UTC" }
