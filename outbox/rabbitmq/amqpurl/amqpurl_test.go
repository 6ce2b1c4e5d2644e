package amqpurl_test

import (
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/rabbitmq/amqpurl"
)

func TestSplitReturnsOneURLForEachHost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		list  string
		hosts []string
	}{
		"one host":              {"amqp://u:p@mq:5672/v", []string{"mq:5672"}},
		"three hosts":           {"amqp://u:p@a:1,b:2,c:3/v", []string{"a:1", "b:2", "c:3"}},
		"the default port":      {"amqp://u:p@a,b:2/v", []string{"a:5672", "b:2"}},
		"the default port, TLS": {"amqps://u:p@a,b/v", []string{"a:5671", "b:5671"}},
		"IPv6":                  {"amqp://u:p@[::1],[fe80::1]:2,b:3/v", []string{"[::1]:5672", "[fe80::1]:2", "b:3"}},
		"no user":               {"amqp://a,b/v", []string{"a:5672", "b:5672"}},
		"one host, other ports": {"amqp://u:p@a:1,a:2/v", []string{"a:1", "a:2"}},
	} {
		nodes, err := amqpurl.Split(test.list)
		var hosts []string
		for _, n := range nodes {
			hosts = append(hosts, n.Host)
			// The client library must read the same host, and the virtual host.
			uri, err := amqp.ParseURI(n.URL)
			if err != nil || !strings.HasSuffix(n.URL, "@"+n.Host+"/v") && name != "no user" || uri.Vhost != "v" {
				t.Errorf("%s: the URL of %s is %q, error %v", name, n.Host, n.URL, err)
			}
		}
		if err != nil || !slices.Equal(hosts, test.hosts) {
			t.Errorf("%s: hosts %q, want %q; error %v", name, hosts, test.hosts, err)
		}
	}
}

func TestEachURLHasTheUserTheVhostAndTheParameters(t *testing.T) {
	t.Parallel()
	for name, user := range map[string]string{
		"escaped":               "us%2Cer:p%40s%2Cs%2Fw",
		"a comma not escaped":   "us,er:p%40s,s%2Fw",
		"an @ that is no end":   "us%2Cer:p@s%2Cs%2Fw",
		"nothing to be escaped": "us,er:p%40s,s%2Fw",
	} {
		nodes, err := amqpurl.Split("amqps://" + user + "@a:1,b:2/v%2Fh?server_name_indication=mq&heartbeat=7")
		if err != nil || len(nodes) != 2 {
			t.Fatalf("%s: %d nodes, error %v", name, len(nodes), err)
		}
		for i, n := range nodes {
			uri, err := amqp.ParseURI(n.URL)
			want := amqp.URI{Scheme: "amqps", Host: []string{"a", "b"}[i], Port: i + 1, Username: "us,er", Password: "p@s,s/w", Vhost: "v/h"}
			if err != nil || uri.Scheme != want.Scheme || uri.Host != want.Host || uri.Port != want.Port ||
				uri.Username != want.Username || uri.Password != want.Password || uri.Vhost != want.Vhost || uri.ServerName != "mq" {
				t.Errorf("%s: node %d is %+v, error %v", name, i, uri, err)
			}
		}
	}
}

func TestAWrongURLIsAnErrorThatShowsNoPassword(t *testing.T) {
	t.Parallel()
	const password = "mq-secret"
	for list, want := range map[string]string{
		"http://u:mq-secret@a/":              "amqp:// or amqps://",
		"a:5672,b:5672":                      "amqp:// or amqps://",
		"amqp://u:mq-secret@a:5672,,b:5672/": "empty host",
		"amqp://u:mq-secret@a:5672,/":        "empty host",
		"amqp://u:mq-secret@,a:5672/":        "empty host",
		"amqp://u:mq-secret@/":               "empty host",
		"amqp://u:mq-secret@:5672/":          "empty host",
		"amqp:///":                           "empty host",
		"amqp://u:mq-secret@a:x,b:5672/":     "no valid URL",
		"amqp://u:mq-secret@a:0,b:5672/":     "between 1 and 65535",
		"amqp://u:mq-secret@a:99999/":        "between 1 and 65535",
		"amqp://u:mq-secret@::1,b:5672/":     "IPv6",
		"amqp://u:mq-secret@a, b/":           "no valid URL",
		"amqp://u:mq-secret@a,b,A:5672/":     "a:5672 twice",
		"amqp://u:1/mq-secret@a,b/":          "has an @ behind its hosts",
		"amqp://u:mq-secret#@a,b/":           "has an @ behind its hosts",
		"amqp://u:1@mq-secret/1@a,b/":        "has an @ behind its hosts",
		"amqp://u:1@mq-secret,b#1@a/":        "has an @ behind its hosts",
		"amqp://u:mq-secret%@a,b/":           "no valid URL",
	} {
		nodes, err := amqpurl.Split(list)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v, error %v; want one with %q, and without the password", list, nodes, err, want)
		}
	}
}
