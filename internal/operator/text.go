package operator

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Noun is what a command is about, for one of them: "event".
type Noun string

// Count counts in words.
func (n Noun) Count(k int) string {
	if k == 1 {
		return "1 " + string(n)
	}
	return fmt.Sprintf("%d %ss", k, n)
}

// Plain keeps what others wrote from moving the cursor or colouring the terminal.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// reasonWidth is what a table shows of a reason; show has all of it.
const reasonWidth = 60

// Cut shortens a text for a table.
func Cut(text string) string {
	if runes := []rune(text); len(runes) > reasonWidth {
		return string(runes[:reasonWidth-1]) + "…"
	}
	return text
}

// Age is as exact as people want it.
func Age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}
