package servicelog

// Messages of the services' logs that test programs wait for.
const (
	TakingOrders       = "taking orders"                           // order-service, api
	TakingMessages     = "taking messages"                         // notification-service
	AnsweringOperators = "answering operators"                     // both
	ConnectedToBroker  = "connected to the broker"                 // both
	Listening          = "listening for events of other processes" // relay
	MessagePublished   = "message published"                       // relay, also of an e-mail
	EmailLogged        = "e-mail written to the log only"          // notification-service
)
