package page

import (
	"math"
	"testing"
	"time"
)

// TestAnAgeThatDoesNotFitIsShown, and does not end the process.
func TestAnAgeThatDoesNotFitIsShown(t *testing.T) {
	t.Parallel()
	for _, seconds := range []float64{1e10, 1e300, math.Inf(1)} {
		if got := (Node{OldestSeconds: seconds}).OldestText(); got != "oldest 106751 days" {
			t.Errorf("%g seconds: %q", seconds, got)
		}
	}
	if got := formatAge(time.Duration(math.MinInt64)); got != "−106751 days" {
		t.Errorf("the smallest duration: %q", got)
	}
}
