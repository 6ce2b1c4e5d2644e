package outbox

import (
	"context"

	"example.com/transactional-outbox/outbox/internal/source"
	"example.com/transactional-outbox/outbox/publish"
)

// init lets the programs of this repository make relays with another source of events.
func init() {
	source.Replace = func(relay any, from source.Events) { relay.(*Relay).events = from }
	source.New = func(config any, from source.Events, to publish.Destination) func(context.Context) error {
		return newRelay(from, to, config.(RelayConfig).withDefaults()).work
	}
}
