package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"path"
)

//go:embed assets
var assetFiles embed.FS

// assetHashes are the first digits of the hash of each file's content. A new content has a new
// path, so a browser may keep an old one for ever.
var assetHashes = hashAssets()

func hashAssets() map[string]string {
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err)
	}
	hashes := map[string]string{}
	for _, entry := range entries {
		content, err := assetFiles.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		hashes[entry.Name()] = hex.EncodeToString(sum[:8])
	}
	return hashes
}

func assetPath(name string) (string, error) {
	hash, found := assetHashes[name]
	if !found {
		return "", fmt.Errorf("there is no asset %s", name)
	}
	return path.Join("/assets", hash, name), nil
}

var assets = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if hash := assetHashes[name]; hash == "" || hash != r.PathValue("hash") {
		http.NotFound(w, r)
		return
	}
	content, err := assetFiles.ReadFile("assets/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(content)
})
