package servicelog

// Messages of the services' logs that test programs wait for.
const (
	TakingOrders       = "taking orders"                                     // order-service, api
	TakingMessages     = "taking messages"                                   // notification-service
	AnsweringOperators = "answering operators"                               // both
	ConnectedToBroker  = "connected to the broker"                           // both
	Listening          = "listening for events of other processes"           // relay
	MessagePublished   = "message published"                                 // relay
	EmailSent          = "Order email sent to customer"                      // notification-service
	NoCopyYet          = "no copy yet, trying again"                         // notification-service
	EmailLogged        = "e-mail written to the log only: SMTP_URL is empty" // notification-service
)
