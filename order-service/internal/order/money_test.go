package order_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"example.com/transactional-outbox/order-service/internal/order"
)

// edges are the values near which multiplication wraps. The square of 3,037,000,499 fits; the next
// number has the first square that does not.
var edges = []int64{
	math.MinInt64, math.MinInt64 + 1, math.MinInt64 / 2, math.MinInt64/2 - 1, math.MinInt32, -2, -1, 0,
	1, 2, 2999, math.MaxInt32, 3_037_000_499, 3_037_000_500, math.MaxInt64/2 + 1, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64,
}

func TestTimesIsExactOrOverflows(t *testing.T) {
	t.Parallel()
	for _, minor := range edges {
		for _, quantity := range edges {
			exact := new(big.Int).Mul(big.NewInt(minor), big.NewInt(quantity))
			got, err := order.NewMoney(minor, "GBP").Times(int(quantity))
			switch {
			case exact.IsInt64() && (err != nil || got != order.NewMoney(exact.Int64(), "GBP")):
				t.Errorf("%d times %d is %v with error %v, want %s GBP", quantity, minor, got, err, exact)
			case !exact.IsInt64() && (!errors.Is(err, order.ErrOverflow) || got != order.Money{}):
				t.Errorf("%d times %d is %v with error %v, want none and ErrOverflow: %s does not fit", quantity, minor, got, err, exact)
			}
		}
	}
}
