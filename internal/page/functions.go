package page

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
)

var functions = template.FuncMap{
	"asset":    assetPath,
	"count":    formatCount,
	"clock":    func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05.000") },
	"iso":      func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) },
	"since":    sinceLastStep,
	"external": external,
	"symbol":   symbol,
	"visible":  visible,
}

// formatCount returns an int or an int64 with commas, such as 1,234,567. It needs no locale.
func formatCount(n any) string {
	digits := fmt.Sprint(n)
	if strings.HasPrefix(digits, "-") {
		return "?"
	}
	var b strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}

func formatRate(perSecond float64) string {
	if perSecond < 10 {
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return formatCount(int64(perSecond + 0.5))
}

// formatAge returns a duration with one or two units.
func formatAge(d time.Duration) string {
	switch {
	case d < 0:
		return "−" + formatAge(-max(d, -math.MaxInt64)) // the smallest duration has no positive one
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
}

// durationOf returns seconds as a duration, at most the longest one. The result of a conversion that
// does not fit is not defined.
func durationOf(seconds float64) time.Duration {
	if longest := time.Duration(math.MaxInt64); seconds >= longest.Seconds() {
		return longest
	}
	return time.Duration(seconds * float64(time.Second))
}

// sinceLastStep returns the time between a step and the last step before it with a time. Clocks of
// different machines may differ, so it can be negative.
func sinceLastStep(steps []Step, i int) string {
	if steps[i].At.IsZero() {
		return ""
	}
	for before := i - 1; before >= 0; before-- {
		if !steps[before].At.IsZero() {
			elapsed := steps[i].At.Sub(steps[before].At)
			if elapsed < 0 {
				return formatAge(elapsed)
			}
			return "+" + formatAge(elapsed)
		}
	}
	return ""
}

// external reports whether a link leads to another site.
func external(to string) bool {
	u, err := url.Parse(to)
	return err == nil && u.Host != ""
}

// symbol says the level without colour.
func symbol(l Level) string {
	switch l {
	case OK:
		return "✓"
	case Warn:
		return "!"
	case Bad:
		return "✗"
	default:
		return ""
	}
}

// visible makes the characters visible that change the direction of text or have no width. With
// them, a value could look like another one.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069', r == '\u200e', r == '\u200f', r == '\u061c':
			return '\ufffd'
		case r == '\u200b', r == '\u200c', r == '\u200d', r == '\u2060', r == '\ufeff':
			return '\ufffd'
		case r < ' ' && r != '\n' && r != '\t', r == 0x7f, r >= 0x80 && r < 0xa0:
			return '\ufffd'
		default:
			return r
		}
	}, text)
}
