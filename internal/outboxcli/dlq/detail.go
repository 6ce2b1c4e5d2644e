package dlq

import (
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

// detail is all of a dead letter.
type detail struct {
	letter

	Exchange        string         `json:"exchange"`
	Type            string         `json:"type"`
	Timestamp       string         `json:"timestamp"`
	AppID           string         `json:"app_id"`
	CorrelationID   string         `json:"correlation_id"`
	ReplyTo         string         `json:"reply_to"`
	Priority        uint8          `json:"priority"`
	ContentType     string         `json:"content_type"`
	ContentEncoding string         `json:"content_encoding"`
	Headers         map[string]any `json:"headers"`
	BodyEncoding    string         `json:"body_encoding"` // json, text or base64
	Body            jsontext.Value `json:"body"`          // a string, unless it is json
}

func detailOf(m rabbitmq.DeadLetter) detail {
	d := detail{
		letter: letterOf(m), Exchange: m.Exchange, Type: m.Type, Timestamp: timestamp(m.Timestamp), AppID: m.AppID,
		CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo, Priority: m.Priority,
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding,
	}
	d.Headers, _ = presentable(m.HeaderValues()).(map[string]any)
	d.BodyEncoding, d.Body = bodyOf(m.Body)
	return d
}

// bodyOf chooses the encoding that shows a body best. It ignores the content type.
func bodyOf(body []byte) (encoding string, value jsontext.Value) {
	if value = jsontext.Value(body).Clone(); value.IsValid() && value.Compact() == nil {
		return "json", value
	}
	encoding, text := "text", string(body)
	if !utf8.Valid(body) {
		encoding, text = "base64", base64.StdEncoding.EncodeToString(body)
	}
	value, _ = jsontext.AppendQuote(nil, text) // it is valid UTF-8
	return encoding, value
}

// bodyText returns the body as text for people: base64 if it is not text. It may have characters
// that control a terminal.
func (d detail) bodyText() string {
	text := string(d.Body)
	if d.BodyEncoding != "json" {
		_ = json.Unmarshal(d.Body, &text) // bodyOf made it
	}
	return text
}

// presentable replaces values that JSON does not have: times, which may be beyond year 9999, and
// bytes.
func presentable(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = presentable(v[name])
		}
		return v
	case []any:
		for i := range v {
			v[i] = presentable(v[i])
		}
		return v
	case []byte:
		if utf8.Valid(v) {
			return string(v)
		}
		return v // JSON has it in base64
	case time.Time:
		return timestamp(v)
	default:
		return v
	}
}

// headerText shows a header's value to people: text as it is, other values as JSON.
func headerText(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	line, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(line)
}

func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
