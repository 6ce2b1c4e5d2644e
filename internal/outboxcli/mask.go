package outboxcli

import (
	"errors"
	"maps"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
)

// masked hides the addresses of an event: in its payload, its headers, and what the destination
// said.
func (s Service) masked(e operate.Event) operate.Event {
	if !s.Masked {
		return e
	}
	e.FailureReason, e.Payload = cli.Mask(e.FailureReason), cli.MaskJSON(e.Payload)
	e.Headers = maps.Clone(e.Headers)
	for name, value := range e.Headers {
		e.Headers[name] = cli.Mask(value)
	}
	return e
}

func (s Service) hideText(text string) string {
	if s.Masked {
		return cli.Mask(text)
	}
	return text
}

// hide hides the addresses of an error: the destination's reply may be in it.
func (s Service) hide(err error) error {
	if text := err.Error(); s.hideText(text) != text {
		return errors.New(s.hideText(text))
	}
	return err
}
