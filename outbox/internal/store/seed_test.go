package store

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
)

// random chooses what the random tests do. SEED is its seed, and that of rapid. The order in which
// goroutines ask is the machine's.
var random struct {
	sync.Mutex
	*rand.Rand
}

func init() {
	text := cmp.Or(os.Getenv("SEED"), "1")
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic("SEED: " + err.Error())
	}
	random.Rand = rand.New(rand.NewPCG(seed, 0))
	_ = flag.Set("rapid.seed", text)
}

func randomBelow(n int) int {
	random.Lock()
	defer random.Unlock()
	return random.IntN(n)
}
