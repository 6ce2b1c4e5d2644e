package httpapi

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.yaml
var document []byte

// serveDocument sends the OpenAPI document of this API.
func serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(document)
}
