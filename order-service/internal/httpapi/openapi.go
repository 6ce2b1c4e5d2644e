package httpapi

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.yaml
var document []byte

// sendDocument answers with what this API promises.
func sendDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(document)
}
