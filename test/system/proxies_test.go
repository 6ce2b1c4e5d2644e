package system

import (
	"example.com/transactional-outbox/test/servers"
)

// proxyFor starts a proxy in front of the server of a URL. The returned setting makes a
// service connect through the proxy.
func (s *system) proxyFor(variable, url string) (proxy *servers.Proxy, setting string) {
	s.Helper()
	proxy, through := servers.ProxyFor(s, url)
	return proxy, variable + "=" + through
}

// brokerProxy starts a proxy between a service and the broker.
func (s *system) brokerProxy(service string) (proxy *servers.Proxy, setting string) {
	s.Helper()
	return s.proxyFor("AMQP_URL", servers.BrokerURLFor(service, s.brokerURL))
}

// ordersDatabaseProxy starts a proxy between order-service and its database.
func (s *system) ordersDatabaseProxy() (proxy *servers.Proxy, setting string) {
	s.Helper()
	return s.proxyFor("DATABASE_URL", s.ordersRoles.Application)
}

// databaseProxy starts a proxy between notification-service and its database.
func (s *system) databaseProxy() (proxy *servers.Proxy, setting string) {
	s.Helper()
	return s.proxyFor("DATABASE_URL", s.notificationsRoles.Application)
}

// mailProxy starts a proxy between notification-service and the mail server.
func (s *system) mailProxy() (proxy *servers.Proxy, setting string) {
	s.Helper()
	return s.proxyFor("SMTP_URL", s.mail.url)
}

// refuseConnections closes the open connections and refuses new ones.
func refuseConnections(p *servers.Proxy) {
	p.Refuse(true)
	p.Cut()
}

func admitConnections(p *servers.Proxy) { p.Refuse(false) }
