package main

import (
	"slices"
	"strings"

	"example.com/transactional-outbox/test/servers"
)

// nodeProxies are the proxies between one replica and the broker: one for each node.
type nodeProxies []*servers.Proxy

// replicaProxies returns the proxies of each replica.
func (sys *system) replicaProxies() (all []*nodeProxies) {
	for i := range replicas {
		all = append(all, &sys.ordersToBroker[i], &sys.notifyToBroker[i])
	}
	return all
}

func (sys *system) openNodeProxies() (proxies nodeProxies, err error) {
	for _, url := range sys.broker.URLs {
		p, err := servers.OpenProxy(hostOf(url))
		if err != nil {
			return nil, err
		}
		sys.closers = append(sys.closers, p.Close)
		proxies = append(proxies, p)
	}
	return proxies, nil
}

// brokerProxies returns the proxies of all connections to the broker.
func (sys *system) brokerProxies() (all []*servers.Proxy) {
	for _, proxies := range sys.replicaProxies() {
		all = append(all, *proxies...)
	}
	return all
}

// proxiesTo returns the proxies of all connections to one node.
func (sys *system) proxiesTo(node int) (all []*servers.Proxy) {
	for _, proxies := range sys.replicaProxies() {
		all = append(all, (*proxies)[node])
	}
	return all
}

// amqpURL returns the setting AMQP_URL of a replica: it names the proxies of all nodes.
func (sys *system) amqpURL(service string, proxies nodeProxies) string {
	u := *mustParse(servers.BrokerURLFor(service, sys.broker.URLs[0]))
	var hosts []string
	for _, p := range proxies {
		hosts = append(hosts, p.Addr())
	}
	u.Host = strings.Join(hosts, ",")
	return u.String()
}

// Stall stalls the connections to all nodes.
func (n nodeProxies) Stall() { n.each((*servers.Proxy).Stall) }

// Resume ends Stall.
func (n nodeProxies) Resume() { n.each((*servers.Proxy).Resume) }

// Reset resets the connections to all nodes.
func (n nodeProxies) Reset() { n.each((*servers.Proxy).Reset) }

// Open counts the open connections to all nodes.
func (n nodeProxies) Open() int { return countOpen(n) }

func (n nodeProxies) each(do func(*servers.Proxy)) {
	for p := range slices.Values(n) {
		do(p)
	}
}

func countOpen(proxies []*servers.Proxy) (open int) {
	for _, p := range proxies {
		open += p.Open()
	}
	return open
}
