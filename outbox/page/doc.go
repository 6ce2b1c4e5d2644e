// Package page is a page for the operators of an outbox. Mount it in any service:
//
//	p := page.New(pool, page.Config{Name: "order-service", Health: relay.Health})
//	mux.Handle("/outbox/", http.StripPrefix("/outbox", p))
//
// It begins with what is wrong now: a relay that waits, paused topics, failed events by reason, and
// events that are late. Each problem leads to the list of its events, and there to what an operator
// can do: replay or discard events, resume a topic. All is plain HTML without a script.
//
// # Who may
//
// With nothing else, the page answers only at localhost, and only shows. [Config].Users are those
// who may log in with a password, and [Config].Operators those who may also decide and see payloads.
// Browsers send a password with each request: use TLS, which is a proxy's work.
//
// # Decisions
//
// A form shows how many events it is about, and asks for that number if there are more than a
// hundred. The events are counted again when it is sent. If somebody else has decided about one of
// them meanwhile, nothing is changed. The change and the record of it, in the table
// operator_decisions, are one transaction of at most [operate.MaxDecided] events.
//
// # Load
//
// At most five requests use the database at the same time, one of them to decide, and none for
// longer than 5 s (a decision: 15 s). Numbers above 10,000 are estimates.
package page
