package cli

import "example.com/transactional-outbox/outbox/rabbitmq"

// BodyText is the body as show prints it.
func BodyText(body string) string {
	return detailOf(rabbitmq.DeadLetter{Message: rabbitmq.Message{Body: []byte(body)}}).bodyText()
}
