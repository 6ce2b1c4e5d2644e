package page

import "regexp"

var traceID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// IsTraceID reports whether a text looks like the id of a trace. A UUID has hyphens.
func IsTraceID(text string) bool { return traceID.MatchString(text) }

// traceparent is the header of W3C Trace Context: version, trace, span, flags. Later versions may
// have more after the flags.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-|$)`)

// TraceOf returns the id of the trace in a traceparent, or "".
func TraceOf(header string) string {
	if found := traceparent.FindStringSubmatch(header); found != nil {
		return found[1]
	}
	return ""
}
