package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"example.com/transactional-outbox/internal/panics"
)

const (
	maxStreams     = 32
	maxUserStreams = 10               // of one user, so that nobody locks the others out
	maxStreamTime  = 10 * time.Minute // then the browser connects again, and logs in again
	writeTimeout   = 5 * time.Second
)

// streams sends the diagram to the browsers that watch it. It counts only while somebody watches.
type streams struct {
	sample func(context.Context) Diagram
	woken  chan struct{} // somebody began to watch

	mu      sync.Mutex
	open    map[*stream]string // with the names of the users
	stopped bool
}

// stream is one browser. Next has the newest diagram that was not sent yet.
type stream struct {
	next chan []byte
	end  chan struct{} // closed when the process stops
}

func newStreams(sample func(context.Context) Diagram) *streams {
	return &streams{sample: sample, woken: make(chan struct{}, 1), open: map[*stream]string{}}
}

// run counts and sends until ctx ends. Then it ends all streams.
func (s *streams) run(ctx context.Context) {
	defer s.stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.woken:
		}
		for s.count() > 0 && ctx.Err() == nil {
			_ = panics.Catch(ctx, func() error { // it is in the log, and the next second may be better
				s.send(event(s.sample(ctx)))
				return nil
			})
			select {
			case <-ctx.Done():
			case <-time.After(sampleInterval):
			}
		}
	}
}

// event is the diagram as a server-sent event.
func event(d Diagram) []byte {
	text, err := json.Marshal(d.live())
	if err != nil {
		text = []byte("null") // it has only strings
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: numbers\ndata: %s\n\n", text)
	return b.Bytes()
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// send replaces what a slow browser has not read yet.
func (s *streams) send(event []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for stream := range s.open {
		select {
		case <-stream.next:
		default:
		}
		stream.next <- event
	}
}

func (s *streams) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for stream := range s.open {
		close(stream.end)
	}
}

// add returns nil if there are too many streams, in all or of this user, or the process stops.
func (s *streams) add(user string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for _, name := range s.open {
		if name == user {
			own++
		}
	}
	if s.stopped || len(s.open) >= maxStreams || own >= maxUserStreams {
		return nil
	}
	added := &stream{next: make(chan []byte, 1), end: make(chan struct{})}
	s.open[added] = user
	select {
	case s.woken <- struct{}{}:
	default:
	}
	return added
}

func (s *streams) remove(stream *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, stream)
}

// serveEvents sends the numbers as long as the browser reads them.
func (p *Page) serveEvents(w http.ResponseWriter, r *http.Request) {
	user, _ := r.Context().Value(userKey{}).(User)
	stream := p.streams.add(user.Name)
	if stream == nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "Too many browsers watch the numbers, or the service is stopping.", http.StatusServiceUnavailable)
		return
	}
	defer p.streams.remove(stream)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	end := time.NewTimer(maxStreamTime)
	defer end.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-stream.end:
			return
		case <-end.C:
			return
		case event := <-stream.next:
			_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := w.Write(event); err != nil {
				return
			}
			if err := control.Flush(); err != nil {
				return
			}
		}
	}
}
