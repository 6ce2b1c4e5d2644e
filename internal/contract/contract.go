// Package contract holds an example of every event that crosses the wire. The
// producer's tests write exactly these bytes; the consumer's tests read them. Each
// side keeps a type of its own: what they share is the JSON, as in production.
package contract

import "embed"

// Events has one file for each event key, named like it.
//
//go:embed *.json
var Events embed.FS
