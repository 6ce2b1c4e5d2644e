package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/go-json-experiment/json"
)

// writeAnswer answers a request that succeeded.
func writeAnswer(w http.ResponseWriter, r *http.Request, status int, v any) {
	writeJSON(w, r, status, "application/json", v)
}

func writeJSON(w http.ResponseWriter, r *http.Request, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	if err := json.MarshalWrite(w, v); err != nil {
		slog.DebugContext(r.Context(), "the client did not take its answer", "error", err)
	}
}
