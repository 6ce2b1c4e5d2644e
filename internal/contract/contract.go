// Package contract holds an example of every event that one service sends to the other. The
// producer's tests must write exactly these bytes. The consumer's tests read them. Each service
// has its own Go type. They share only the JSON, as in production.
package contract

import "embed"

// Events has one file for each event key. The file has the name of the key.
//
//go:embed *.json
var Events embed.FS
