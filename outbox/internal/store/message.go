package store

import "example.com/transactional-outbox/outbox/publish"

// TraceHeader is the header of the W3C trace context.
const TraceHeader = "traceparent"

// Message returns the event as the service appID publishes it.
func (e Event) Message(appID string) publish.Message {
	headers := make(map[string]any, len(e.Headers)+1)
	for name, value := range e.Headers {
		headers[name] = value
	}
	if e.Traceparent != "" {
		headers[TraceHeader] = e.Traceparent
	}
	return publish.Message{
		ID: e.ID.String(), Topic: e.Topic, Group: e.AggregateID, ContentType: e.ContentType,
		AppID: appID, Timestamp: e.CreatedAt, Headers: headers, Body: e.Payload,
	}
}
