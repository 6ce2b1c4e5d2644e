package outboxpage

import "time"

// formatTime is for times within a sentence.
func formatTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") + " UTC" }
