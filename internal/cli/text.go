package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Noun names one of the things that a command changes or prints, such as "event".
type Noun string

// Count returns a number with the noun, such as "3 events".
func (n Noun) Count(k int) string {
	if k == 1 {
		return "1 " + string(n)
	}
	return fmt.Sprintf("%d %ss", k, n)
}

// Printable replaces unprintable characters. Text from others must not move the cursor or change
// the colours of the terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// reasonWidth is how many characters of a reason a table shows. The command show prints all of it.
const reasonWidth = 60

// Truncate shortens a text for a table.
func Truncate(text string) string {
	if runes := []rune(text); len(runes) > reasonWidth {
		return string(runes[:reasonWidth-1]) + "…"
	}
	return text
}

// Age formats a duration with one or two units, such as "5m" or "3h20m".
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
