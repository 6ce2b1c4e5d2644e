package page

import "time"

// Numbers is what a service knows about its part of the way. /numbers sends it to the peer as JSON.
type Numbers struct {
	Service string    `json:"service"`
	At      time.Time `json:"at"`
	Nodes   []Node    `json:"nodes"`
	Gates   []string  `json:"gates"`           // what waits for what, such as "the relay waits for the broker"
	Error   string    `json:"error,omitempty"` // why there are no nodes; the frame sets it
}

// Unknown is a rate or an age that nobody knows.
const Unknown = -1

// Node is a place on the way of an event, with what is there.
type Node struct {
	Name          string  `json:"name"`          // such as "waiting"; unique in a service
	Label         string  `json:"label"`         // what the diagram shows
	Count         int64   `json:"count"`         // Unknown: shown as "?"
	About         bool    `json:"about"`         // the count is an estimate
	PerSecond     float64 `json:"perSecond"`     // Unknown: not shown
	OldestSeconds float64 `json:"oldestSeconds"` // Unknown: not shown
	Note          string  `json:"note"`          // a few words
	Level         Level   `json:"level"`
	Path          string  `json:"path"` // the page of this service that lists the items; "": none
	Side          bool    `json:"side"` // it is beside the way: retries, dead letters
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
