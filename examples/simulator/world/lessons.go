package world

// Lesson is a sequence of actions that shows one idea. It begins with a new system.
type Lesson struct {
	Title string
	Text  string
	Steps []string // the ids of the actions
	End   string   // what the reader sees at the end
}

// Lessons are in the order of the chapters. A test takes all their steps.
var Lessons = []Lesson{
	{
		"The way of an event",
		"An order and its event are committed together. A relay claims the event, publishes it, waits for the confirm, and only then marks it.",
		[]string{
			"client/new", "relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go",
			"consumer/go", "consumer/go", "consumer/go",
		},
		"outbox_queue is empty, A1 is in outbox_published, and its e-mail is in the consumer's outbox once.",
	},
	{
		"A relay dies before it marks",
		"The broker has stored A1. Relay 1 is killed before it gets the confirm. Relay 2 does not know whether the broker has A1. So after the end of the lease it publishes A1 again.",
		[]string{
			"client/new", "relay 1/go", "relay 1/go", "relay 1/kill", "relay 2/go", "clock/1m0s",
			"relay 2/go", "relay 2/go", "relay 2/go", "relay 2/go",
			"consumer/go", "consumer/go", "consumer/go", "consumer/go", "consumer/go", "consumer/go",
		},
		"The broker delivered A1 twice. The second time, its id was in the inbox. So the effect is there once.",
	},
	{
		"The same without the inbox",
		"Relay 1 dies in the same way, but the consumer works without its inbox.",
		[]string{
			"consumer/inbox", "client/new", "relay 1/go", "relay 1/go", "relay 1/kill", "relay 2/go", "clock/1m0s",
			"relay 2/go", "relay 2/go", "relay 2/go", "relay 2/go",
			"consumer/go", "consumer/go", "consumer/go", "consumer/go", "consumer/go", "consumer/go",
		},
		"The effect of A1 is there twice. Delivery is at-least-once, so a consumer needs an inbox.",
	},
	{
		"A relay stalls for longer than its lease",
		"The queue refuses A1, which relay 1 has sent. Before relay 1 writes that into the outbox, it stalls for a minute. Relay 2 claims A1. Then relay 1 goes on.",
		[]string{
			"client/new", "broker/refuse A", "relay 1/go", "relay 1/go", "relay 1/go", "clock/1m0s",
			"relay 2/go", "relay 1/go",
		},
		"Relay 1 changed nothing. Its statement changes only events that its own claim still holds, and relay 2 has claimed A1.",
	},
	{
		"No event overtakes an older one of its order",
		"The queue refuses A1 for a moment. A2 is a later event of the same order, so no relay claims it before A1 is published. B1 is of another order.",
		[]string{
			"client/new", "client/A", "client/new", "broker/refuse A",
			"relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go",
			"broker/refuse A", "clock/1s",
			"relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go",
			"relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go",
		},
		"The queue has B1 first: it did not wait for another order. A2 comes after A1.",
	},
	{
		"The consumer dies before it acknowledges",
		"The consumer commits the inbox's row and the effect together. Then it is killed. The broker has no acknowledgement, so it delivers the message again.",
		[]string{
			"client/new", "relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go",
			"consumer/go", "consumer/go", "consumer/kill", "consumer/go", "consumer/go", "consumer/go",
		},
		"The broker delivered A1 twice. The second time, its id was in the inbox. So the effect is there once.",
	},
	{
		"A topic pauses, and one event tries it",
		"No queue is bound, so the broker returns A1 and B1. Both are halted, and their topic pauses for a second. Then the relay tries the topic with one event.",
		[]string{
			"client/new", "client/new", "broker/bind", "relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go",
			"broker/bind", "clock/1s",
			"relay 1, paused topics/go", "relay 1, paused topics/go", "relay 1, paused topics/go", "relay 1, paused topics/go",
			"relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go", "relay 1/go",
		},
		"The broker has taken A1, so the pause was over. The next claim made B1 due, and the one after that took it.",
	},
}
