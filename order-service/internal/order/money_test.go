package order_test

import (
	"cmp"
	"errors"
	"flag"
	"math"
	"math/big"
	"os"
	"testing"

	"pgregory.net/rapid"

	"example.com/transactional-outbox/order-service/internal/order"
)

// SEED chooses what the random tests do.
func init() { _ = flag.Set("rapid.seed", cmp.Or(os.Getenv("SEED"), "1")) }

// edges are the values near which multiplication wraps. Random numbers seldom hit them.
var edges = []int64{
	math.MinInt64, math.MinInt64 + 1, math.MinInt64 / 2, math.MinInt64/2 - 1, math.MinInt32, -2, -1, 0,
	1, 2, 2999, math.MaxInt32, math.MaxInt64/2 + 1, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64,
}

func checkTimes(t rapid.TB, minor int64, quantity int) {
	t.Helper()
	exact := new(big.Int).Mul(big.NewInt(minor), big.NewInt(int64(quantity)))
	got, err := order.NewMoney(minor, "GBP").Times(quantity)
	switch {
	case exact.IsInt64() && (err != nil || got != order.NewMoney(exact.Int64(), "GBP")):
		t.Errorf("%d times %d is %v with error %v, want %s GBP", quantity, minor, got, err, exact)
	case !exact.IsInt64() && (!errors.Is(err, order.ErrOverflow) || got != order.Money{}):
		t.Errorf("%d times %d is %v with error %v, want none and ErrOverflow: %s does not fit", quantity, minor, got, err, exact)
	}
}

func TestTimesIsExactOrOverflows(t *testing.T) {
	t.Parallel()
	for _, minor := range edges {
		for _, quantity := range edges {
			checkTimes(t, minor, int(quantity))
		}
	}
	number := rapid.OneOf(rapid.Int64(), rapid.SampledFrom(edges), rapid.Int64Range(-order.MaxQuantity, order.MaxQuantity))
	rapid.Check(t, func(t *rapid.T) {
		checkTimes(t, number.Draw(t, "minor"), int(number.Draw(t, "quantity")))
	})
}
