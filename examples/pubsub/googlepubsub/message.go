package googlepubsub

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"example.com/transactional-outbox/outbox/publish"
)

// The attributes of each message, beside its headers. The id is an attribute, because Pub/Sub
// gives each publish another id of its own.
const (
	ID          = "id"
	Key         = "key"
	ContentType = "content-type"
	AppID       = "app-id"
	Timestamp   = "timestamp"
)

// Pub/Sub's limits. https://cloud.google.com/pubsub/quotas#resource_limits
const (
	maxRequestBytes    = 10_000_000
	maxRequestMessages = 1000
	maxAttributes      = 100
	maxAttributeKey    = 256
	maxAttributeValue  = 1024
	maxOrderingKey     = 1024
	reservedPrefix     = "goog" // of attributes
)

// encode returns a message of Pub/Sub, or an error if Pub/Sub cannot carry it.
func encode(m publish.Message) (*pubsubpb.PubsubMessage, error) {
	if !fits(m.Topic, maxAttributeValue) || !fits(m.Group, maxOrderingKey) {
		return nil, fmt.Errorf("%w: more than %d bytes, or not UTF-8", publish.ErrBadTopic, maxOrderingKey)
	}
	attributes, err := attributesOf(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", publish.ErrBadHeaders, err)
	}
	return &pubsubpb.PubsubMessage{Data: m.Body, Attributes: attributes, OrderingKey: m.Group}, nil
}

func attributesOf(m publish.Message) (map[string]string, error) {
	attributes := map[string]string{}
	for name, value := range map[string]string{ID: m.ID, Key: m.Topic, ContentType: m.ContentType, AppID: m.AppID} {
		if value != "" {
			attributes[name] = value
		}
	}
	if !m.Timestamp.IsZero() {
		attributes[Timestamp] = m.Timestamp.UTC().Format(time.RFC3339Nano)
	}
	for name, value := range m.Headers {
		if _, taken := attributes[name]; taken {
			return nil, fmt.Errorf("a header has the name of the attribute %q", name)
		}
		text, err := headerText(value)
		if err != nil {
			return nil, fmt.Errorf("header %.50q: %w", name, err)
		}
		attributes[name] = text
	}
	return attributes, checkAttributes(attributes)
}

func headerText(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	}
	return "", fmt.Errorf("its type is %T", value)
}

func checkAttributes(attributes map[string]string) error {
	if len(attributes) > maxAttributes {
		return fmt.Errorf("%d attributes, at most %d are possible", len(attributes), maxAttributes)
	}
	for name, value := range attributes {
		if name == "" || !fits(name, maxAttributeKey) || strings.HasPrefix(name, reservedPrefix) {
			return fmt.Errorf("no attribute can have the name %.50q", name)
		}
		if !fits(value, maxAttributeValue) {
			return fmt.Errorf("attribute %s: more than %d bytes, or not UTF-8", name, maxAttributeValue)
		}
	}
	return nil
}

func fits(text string, most int) bool { return len(text) <= most && utf8.ValidString(text) }
