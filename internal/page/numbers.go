package page

import "time"

// Numbers is what a service knows about its part of the way.
type Numbers struct {
	Service string
	At      time.Time
	Nodes   []Node
	Gates   []string // what waits for what, such as "the relay waits for the broker"
	Error   string   // why there are no nodes; the frame sets it, and Service
}

// Unknown is a rate or an age that nobody knows.
const Unknown = -1

// Node is a place on the way of an event, with what is there.
type Node struct {
	Name          string  // such as "waiting"; unique in a service
	Label         string  // what the diagram shows
	Count         int64   // Unknown: shown as "?"
	About         bool    // the count is an estimate
	PerSecond     float64 // Unknown: not shown
	OldestSeconds float64 // Unknown: not shown
	Note          string  // a few words
	Level         Level
	Path          string // the page of this service that lists the items; "": none
	Side          bool   // it is beside the way: retries, dead letters
}

// CountText is the count as the diagram shows it.
func (n Node) CountText() string {
	if n.About {
		return "about " + formatCount(n.Count)
	}
	return formatCount(n.Count)
}

// RateText is the rate as the diagram shows it, or "".
func (n Node) RateText() string {
	if n.PerSecond < 0 {
		return ""
	}
	return "now " + formatRate(n.PerSecond) + "/s"
}

// OldestText is the age of the oldest item as the diagram shows it, or "".
func (n Node) OldestText() string {
	if n.OldestSeconds < 0 {
		return ""
	}
	return "oldest " + formatAge(durationOf(n.OldestSeconds))
}
