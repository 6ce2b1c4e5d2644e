// Package amqpurl reads a broker's URL that may name several hosts, separated by commas:
//
//	amqp://user:password@a:5672,b:5672,c:5672/vhost
//
// The client library knows only URLs with one host.
package amqpurl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

var defaultPorts = map[string]string{"amqp": "5672", "amqps": "5671"}

// Node is one host of the URL.
type Node struct {
	Host string // host:port, for logs and errors
	URL  string // the whole URL with only this host; it contains the password
}

// Split returns the nodes that a URL names. The user, the virtual host and the parameters are the
// same for all of them. An error never shows a part of the URL that may be the password.
func Split(list string) ([]Node, error) {
	scheme, rest, _ := strings.Cut(list, "://")
	if defaultPorts[scheme] == "" {
		return nil, errors.New("must start with amqp:// or amqps://")
	}
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	if strings.Contains(tail, "@") { // then a part of the password may look like a host
		return nil, errors.New("has an @ behind its hosts: escape / ? # @ in the password as %2F %3F %23 %40, and an @ behind the hosts as %40")
	}
	at := strings.LastIndex(authority, "@")
	user, hosts := authority[:at+1], authority[at+1:]
	var nodes []Node
	for host := range strings.SplitSeq(hosts, ",") {
		n, err := newNode(scheme, user, host, tail)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(nodes, func(other Node) bool { return other.Host == n.Host }) {
			return nil, fmt.Errorf("names the host %s twice", n.Host)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func newNode(scheme, user, host, tail string) (Node, error) {
	u, err := url.Parse(scheme + "://" + user + host + tail)
	if err != nil || strings.Contains(u.Hostname(), ":") != strings.HasPrefix(host, "[") {
		return Node{}, errors.New("is no valid URL: escape reserved characters in the password, write IPv6 as [::1]:5672, and a port as a number")
	}
	if u.Hostname() == "" {
		return Node{}, errors.New("has an empty host: write host:port,host:port")
	}
	port := u.Port()
	if port == "" {
		port = defaultPorts[scheme]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return Node{}, errors.New("has a port that is not between 1 and 65535")
	}
	u.Host = net.JoinHostPort(strings.ToLower(u.Hostname()), port)
	return Node{Host: u.Host, URL: u.String()}, nil
}
