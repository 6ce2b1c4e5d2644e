package httpapi

import (
	"context"
	"net/http"

	"golang.org/x/sync/semaphore"
)

// WithinLimits runs work as that of a request.
func WithinLimits(w http.ResponseWriter, r *http.Request, work func(context.Context) error) {
	(&api{slots: semaphore.NewWeighted(1)}).withinLimits(w, r, work)
}
