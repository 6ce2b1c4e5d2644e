package main

import "example.com/transactional-outbox/outbox/rabbitmq"

const (
	service  = "order-service"
	exchange = "outbox.events" // for all events. Consumers bind their own queues to it.
)

var topology = rabbitmq.Topology{Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "topic"}}}
