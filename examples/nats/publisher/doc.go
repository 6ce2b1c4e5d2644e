// Package publisher publishes a relay's messages to NATS JetStream. Package publish says what a
// publisher promises. This one passes the same tests as the publisher for RabbitMQ.
//
// # Subjects
//
// The subject of a message is its destination, its key and its group, for example
// outbox.events.order.created.018f…: one subject for each order. A consumer selects by key with
// the filter outbox.events.order.created.* because the group is always the last token.
//
// # Outcomes
//
//   - Confirmed: the stream has stored it. Also a duplicate: the stream has it already.
//   - Returned: no stream has this subject.
//   - Refused: the server answered with an error, for example because the stream is full.
//   - Invalid: the message is larger than the server or the stream allows, its subject is not
//     valid, or its headers cannot be sent.
//   - Unknown: no answer in time, or the connection closed.
//
// # A session is one connection
//
// The client library reconnects by default, and then sends the messages that it has kept. Here that
// is off. Otherwise it would send a message whose outcome is already Unknown for the relay, perhaps
// after another relay has published newer events of the order. See [Connect].
package publisher
