// Package googlepubsub publishes a relay's messages to Google Pub/Sub.
//
//	to := googlepubsub.Config{Project: "shop", Topics: []string{"order-events"}}
//	relay, err := outbox.NewRelay(pool, to, outbox.RelayConfig{})
//
// # How it publishes
//
// The ordering key of a message is its group. A request may have only one ordering key. So a batch
// becomes one request for each group, and the publisher sends them at the same time. Pub/Sub stores
// all messages of a request or none, so they have the same outcome. If a group needs several
// requests, each one waits for the confirm of the one before.
//
// # Why it does not use the library's Publisher
//
// The Publisher of pubsub/v2 collects messages in memory and sends them in the background. The
// outbox already collects them, and a relay has to know the outcomes of a batch:
//
//   - When its caller stops waiting, the Publisher goes on and sends the messages later
//     (TestTheLibraryPublishesAfterItsCallerGaveUp).
//   - After an error it refuses all messages of that ordering key until ResumePublish is called
//     (TestTheLibraryStopsAnOrderUntilItIsResumed).
//
// So this package calls the Publish method of the API, as the Publisher does. That call ends when
// its context ends, and sends nothing later. The library's retries are off, because they would go
// on for 60 s. The relay retries from the outbox.
//
// # What it does not promise
//
// If a topic has no subscription, Pub/Sub confirms its messages and drops them. The publisher looks
// for a subscription, but not before each batch: see [Config.LookEvery].
package googlepubsub
