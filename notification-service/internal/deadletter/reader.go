package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.com/transactional-outbox/internal/panics"
)

// MaxRead is how many messages a Reader reads at a time. It holds all of them meanwhile.
const MaxRead = 10_000

const (
	readTimeout = time.Minute // one reading; it takes a few seconds
	maxJobs     = 8           // readings that wait
	maxResults  = 4           // that are kept: a body may have 16 MiB
	keepDetail  = 30 * time.Second
)

// Reader reads the queue for people who look at it. It reads at most [MaxRead] messages, and keeps
// what it has seen for some seconds, so that looking again does not hold the queue all the time.
// A process reads or changes the queue only once at a time: a second reading would not see the
// messages that the first one holds.
type Reader struct {
	queue Queue
	busy  chan struct{} // holds a value while the queue is read or changed
	ended context.Context
	end   context.CancelFunc

	running sync.WaitGroup
	mu      sync.Mutex
	jobs    map[string]*job // by the key of a detail, or "" for the list
}

// job is one reading. Its other fields are set when done is closed.
type job struct {
	done chan struct{}
	at   time.Time
	list Snapshot
	one  *Detail
	err  error
}

// NewReader returns a reader of a queue. Close ends it.
func NewReader(queue Queue) *Reader {
	r := &Reader{queue: queue, busy: make(chan struct{}, 1), jobs: map[string]*job{}}
	r.ended, r.end = context.WithCancel(context.Background())
	return r
}

// Close ends a reading that is under way, and waits for it.
func (r *Reader) Close() {
	r.end()
	r.running.Wait()
}

// ErrReading says that the reading takes longer than the caller waits. A later call gets the
// result.
var ErrReading = errors.New("the queue is still being read")

// ErrGone says that the queue has no such message.
var ErrGone = errors.New("no such dead letter")

// Snapshot is what was in the queue at one time.
type Snapshot struct {
	At      time.Time // when the reading ended
	Letters []Entry   // in the order of the queue
	Total   int       // how many messages were ready; more than Letters if there were more than MaxRead
}

// List returns what was in the queue. It reads the queue if nobody has read it for maxAge.
func (r *Reader) List(ctx context.Context, maxAge time.Duration) (Snapshot, error) {
	j, err := r.get(ctx, "", maxAge, func(ctx context.Context, j *job) error {
		return r.queue.Read(ctx, MaxRead, func(_, total int) { j.list.Total = total }, func(f Found) bool {
			j.list.Letters = append(j.list.Letters, entryOf(f))
			return true
		})
	})
	if err != nil {
		return Snapshot{}, err
	}
	snapshot := j.list
	snapshot.At = j.at
	return snapshot, nil
}

// Detail returns all of a dead letter, or [ErrGone].
func (r *Reader) Detail(ctx context.Context, key string) (Detail, error) {
	j, err := r.get(ctx, key, keepDetail, func(ctx context.Context, j *job) error {
		err := r.queue.Read(ctx, MaxRead, nil, func(f Found) bool {
			if f.Key != key {
				return true
			}
			detail := DetailOf(f)
			j.one = &detail
			return false
		})
		if err == nil && j.one == nil {
			err = ErrGone
		}
		return err
	})
	if err != nil {
		return Detail{}, err
	}
	return *j.one, nil
}

// Exclusive calls change while this process does not read the queue. Afterwards the queue is read
// anew. The error is that of change, or says that ctx has ended.
func (r *Reader) Exclusive(ctx context.Context, change func() error) error {
	if err := r.acquire(ctx); err != nil {
		return err
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for name, j := range r.jobs {
			if j.isDone() {
				delete(r.jobs, name)
			}
		}
		<-r.busy
	}()
	return change()
}

func (r *Reader) acquire(ctx context.Context) error {
	select {
	case r.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// get returns a job that is done and not older than maxAge. It starts one if there is none, and
// waits until it is done or ctx ends.
func (r *Reader) get(ctx context.Context, name string, maxAge time.Duration, read func(context.Context, *job) error) (*job, error) {
	j, err := r.start(name, maxAge, read) //nolint:contextcheck // others wait for the job too, so it outlives ctx
	if err != nil {
		return nil, err
	}
	select {
	case <-j.done:
		return j, j.err
	case <-ctx.Done():
		return nil, ErrReading
	}
}

func (r *Reader) start(name string, maxAge time.Duration, read func(context.Context, *job) error) (*job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, j := range r.jobs {
		limit := keepDetail
		if other == name {
			limit = maxAge
		}
		if j.isDone() && (j.err != nil || time.Since(j.at) > limit) {
			delete(r.jobs, other)
		}
	}
	if j := r.jobs[name]; j != nil {
		return j, nil
	}
	if waiting := r.removeOldResults(); r.ended.Err() != nil || waiting >= maxJobs {
		return nil, ErrReading
	}
	j := &job{done: make(chan struct{})}
	r.jobs[name] = j
	r.running.Go(func() {
		defer close(j.done)
		ctx, cancel := context.WithTimeout(r.ended, readTimeout)
		defer cancel()
		if j.err = r.acquire(ctx); j.err == nil {
			j.err = panics.Catch(ctx, func() error { return read(ctx, j) }) // anybody may have written what it reads
			<-r.busy
		}
		if j.err != nil && !errors.Is(j.err, ErrGone) {
			j.err = fmt.Errorf("reading the dead letters: %w", j.err)
		}
		j.at = time.Now()
	})
	return j, nil
}

// removeOldResults leaves room for one more result, and returns how many readings wait. If many
// dead letters are looked at, the results that are kept must not stop the next reading.
func (r *Reader) removeOldResults() (waiting int) {
	var done []string
	for name, j := range r.jobs {
		if j.isDone() {
			done = append(done, name)
		}
	}
	slices.SortFunc(done, func(a, b string) int { return r.jobs[a].at.Compare(r.jobs[b].at) })
	waiting = len(r.jobs) - len(done)
	for _, name := range done[:max(0, len(done)-maxResults+1)] {
		delete(r.jobs, name)
	}
	return waiting
}

func (j *job) isDone() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}
