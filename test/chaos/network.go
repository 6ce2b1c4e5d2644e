package main

import (
	"net/url"
	"slices"
	"strings"

	"example.com/transactional-outbox/test/env/servers"
)

// Each replica reaches each server through a proxy of its own, so that a fault of the network can
// hit one replica or all.

// nodeProxies are the proxies between one replica and the broker: one for each node.
type nodeProxies []*servers.Proxy

// replicaProxies returns the proxies of each replica.
func (sys *system) replicaProxies() (all []*nodeProxies) {
	for i := range replicas {
		all = append(all, &sys.ordersToBroker[i], &sys.notifyToBroker[i])
	}
	return all
}

// openProxies opens the proxies of all replicas.
func (sys *system) openProxies() (err error) {
	database := hostOf(sys.postgres.URL(""))
	for i := range replicas {
		for _, p := range []**servers.Proxy{&sys.ordersToDB[i], &sys.notifyToDB[i]} {
			if *p, err = sys.openProxy(database); err != nil {
				return err
			}
			(*p).DropReply(sys.commits.dropsReply)
		}
		for _, url := range sys.broker.URLs {
			for _, node := range []*nodeProxies{&sys.ordersToBroker[i], &sys.notifyToBroker[i]} {
				p, err := sys.openProxy(hostOf(url))
				if err != nil {
					return err
				}
				*node = append(*node, p)
			}
		}
	}
	return nil
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

// Stall stalls the connections to all nodes.
func (n nodeProxies) Stall() { n.each((*servers.Proxy).Stall) }

// Resume ends Stall.
func (n nodeProxies) Resume() { n.each((*servers.Proxy).Resume) }

// Reset resets the connections to all nodes.
func (n nodeProxies) Reset() { n.each((*servers.Proxy).Reset) }

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

// refuse closes all connections, and refuses new ones until mend is called. mend counts the refused
// ones.
func (sys *system) refuse(proxies []*servers.Proxy) (mend func()) {
	for _, p := range proxies {
		sys.injected -= p.Accepted()
		p.Refuse(true)
		p.Cut()
	}
	return func() {
		for _, p := range proxies {
			sys.injected += p.Accepted()
			p.Refuse(false)
		}
	}
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

func (sys *system) openProxy(target string) (*servers.Proxy, error) {
	proxy, err := servers.OpenProxy(target)
	if err == nil {
		sys.closers = append(sys.closers, proxy.Close)
	}
	return proxy, err
}

// databaseProxies returns the proxies of all connections to the databases.
func (sys *system) databaseProxies() []*servers.Proxy {
	return slices.Concat(sys.ordersToDB[:], sys.notifyToDB[:])
}

// publisherProxies returns the proxies between the relays and the broker.
func (sys *system) publisherProxies() []*servers.Proxy {
	return slices.Concat(sys.ordersToBroker[0], sys.ordersToBroker[1])
}

// vanish makes the machine behind these proxies silent: nobody gets a FIN or an RST from it, and it
// answers nothing on old and on new connections. The proxy's kernel still accepts connections and
// acknowledges bytes. So the timeouts of TCP do not help here, and only those of the program do. On
// a real network both would help.
func (sys *system) vanish(proxies ...*servers.Proxy) {
	sys.allowed.Refusals = true // there is no answer in time
	for _, p := range proxies {
		sys.injected += p.Open()
		p.Stall()
	}
}

// databaseURL returns the URL with which a replica reaches its database. With a standby it has both
// hosts, and the driver uses the one that takes writes.
func (sys *system) databaseURL(first *servers.Proxy, address string) string {
	u := *mustParse(address)
	if sys.pooler != nil {
		u.RawQuery += poolerParameters
	}
	u.Host = first.Addr()
	if sys.standby != nil {
		u.Host += "," + sys.standby.hosts[1][slices.Index(sys.databaseProxies(), first)].Addr()
		u.RawQuery += "&target_session_attrs=read-write"
	}
	return u.String()
}

func hostOf(address string) string { return mustParse(address).Host }

// mustParse is for URLs from our own servers, which are valid.
func mustParse(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return u
}

// viaProxy returns the URL of a server with the address of a proxy.
func viaProxy(p *servers.Proxy, address string) string {
	u := *mustParse(address)
	u.Host = p.Addr()
	return u.String()
}
