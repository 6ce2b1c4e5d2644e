package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"example.com/transactional-outbox/internal/postgres"
)

const (
	sampleInterval = time.Second
	countTimeout   = 2 * time.Second // less than [QueryTimeout], so that the overview can say what is missing
	peerTimeout    = time.Second
	maxPeerBody    = 64 << 10
	maxPeerNodes   = 64
)

// sampler counts what both services have. It counts at most about once a second, however many ask.
type sampler struct {
	config Config
	count  func(context.Context) (Numbers, error)
	own    once[Numbers]
	peer   once[Numbers]
	client *http.Client
}

func newSampler(config Config) *sampler {
	s := &sampler{
		config: config,
		count:  func(context.Context) (Numbers, error) { return Numbers{}, errors.New("no numbers are registered") },
		client: &http.Client{
			Timeout: peerTimeout,
			// Without a proxy, which the environment of a container may name. Without kept connections,
			// because there may be a minute between two samples.
			Transport:     &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	s.own.timeout, s.own.ask = countTimeout, func(ctx context.Context) (Numbers, error) { return s.count(ctx) }
	s.peer.timeout, s.peer.ask = peerTimeout, s.askPeer
	return s
}

// diagram returns the numbers of both services, in the order of an event's way.
func (s *sampler) diagram(ctx context.Context) Diagram {
	own := ServiceNumbers{Numbers: Numbers{Service: s.config.Service}}
	peer := ServiceNumbers{Numbers: Numbers{Service: s.config.Peer}, Page: s.config.PeerPage}
	var both sync.WaitGroup
	both.Go(func() {
		numbers, err := s.own.get(ctx)
		own.Nodes, own.Gates, own.At = numbers.Nodes, numbers.Gates, numbers.At
		if err != nil {
			own.Error = "no numbers: " + reason(err)
		}
	})
	both.Go(func() {
		numbers, err := s.peer.get(ctx)
		peer.Nodes, peer.Gates, peer.At = numbers.Nodes, numbers.Gates, numbers.At
		if err != nil {
			peer.Error = "no numbers from " + s.config.Peer + ": " + reason(err)
		}
	})
	both.Wait()
	if s.config.PeerFirst {
		return Diagram{[]ServiceNumbers{peer, own}}
	}
	return Diagram{[]ServiceNumbers{own, peer}}
}

// reason is why there are no numbers, for people.
func reason(err error) string {
	if shown, ok := errors.AsType[*Error](err); ok {
		return shown.Text
	}
	slog.Warn("no numbers for the page", "error", err)
	if postgres.Unavailable(err) {
		return "the database does not answer, or it needs too long"
	}
	return "the log says why"
}

// askPeer asks the other service for its numbers.
func (s *sampler) askPeer(ctx context.Context) (n Numbers, err error) {
	if s.config.PeerOps == "" {
		return n, Errorf(http.StatusNotFound, "PEER_OPS_URL is not set")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, join(s.config.PeerOps, numbersPath), nil)
	if err != nil {
		return n, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return n, Errorf(http.StatusBadGateway, "it does not answer at PEER_OPS_URL")
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxPeerBody))
	if err != nil {
		return n, Errorf(http.StatusBadGateway, "its answer ends too early")
	}
	if err := json.Unmarshal(body, &n); err != nil {
		return Numbers{}, Errorf(http.StatusBadGateway, "its answer (%s) cannot be read", response.Status)
	}
	if n.Service != s.config.Peer || len(n.Nodes) > maxPeerNodes {
		return Numbers{}, Errorf(http.StatusBadGateway, "at PEER_OPS_URL is another service")
	}
	n.clean(s.config.PeerPage != "")
	if n.Error != "" {
		return n, Errorf(http.StatusBadGateway, "%s", n.Error)
	}
	return n, nil
}

// clean removes what could lead a link of this page elsewhere. If the page of the peer is not
// known, there are no links to it.
func (n *Numbers) clean(linked bool) {
	for i := range n.Nodes {
		if path := n.Nodes[i].Path; !linked || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
			n.Nodes[i].Path = ""
		}
	}
}

const numbersPath = "/numbers"

// serveNumbers answers the peer. If the service cannot count, the answer says why, and what the
// service waits for.
func (p *Page) serveNumbers(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "Use GET.", http.StatusMethodNotAllowed)
		return
	}
	numbers, err := p.sampler.own.get(r.Context())
	numbers.Service = p.config.Service
	if err != nil {
		numbers.Error = reason(err)
	}
	text, err := json.Marshal(numbers)
	if err != nil {
		http.Error(w, fmt.Sprintf("The numbers cannot be sent: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// overview shows the diagram.
func (p *Page) overview(ctx context.Context, _ *Request) (Result, error) {
	return Show("Overview", p.sampler.diagram(ctx)), nil
}
