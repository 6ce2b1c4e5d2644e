package store

import (
	"cmp"
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
)

// random chooses what a random test does. SEED changes it, and what rapid chooses. The order in which
// the goroutines of a test ask is the machine's.
type random struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func init() { _ = flag.Set("rapid.seed", seed()) }

func seed() string { return cmp.Or(os.Getenv("SEED"), "1") }

func newRandom(test string) *random {
	number, err := strconv.ParseUint(seed(), 10, 64)
	if err != nil {
		panic("SEED: " + err.Error())
	}
	name := fnv.New64()
	_, _ = name.Write([]byte(test))
	return &random{rand: rand.New(rand.NewPCG(number, name.Sum64()))}
}

// below returns a number from 0 to n-1.
func (r *random) below(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rand.IntN(n)
}
