package order

import (
	"errors"
	"fmt"
	"math"
)

// Money is an amount in the minor units of its currency, such as pence or cents. The amount is
// unexported, so that nobody uses floating-point arithmetic with it.
type Money struct {
	minor    int64
	currency string
}

// ErrOverflow says that an amount does not fit in 64 bits.
var ErrOverflow = errors.New("amount too large")

// NewMoney returns an amount in minor units of a currency (ISO 4217).
func NewMoney(minor int64, currency string) Money {
	return Money{minor: minor, currency: currency}
}

// Minor is the amount in minor units.
func (m Money) Minor() int64 { return m.minor }

// Currency is the ISO 4217 code.
func (m Money) Currency() string { return m.currency }

// Times returns quantity times m, or [ErrOverflow].
func (m Money) Times(quantity int) (Money, error) {
	n := int64(quantity)
	product := m.minor * n
	// If the product wrapped, dividing does not give the amount back. The exception is -1 times
	// the smallest number, which is that number again.
	if n != 0 && (product/n != m.minor || n == -1 && m.minor == math.MinInt64) {
		return Money{}, fmt.Errorf("%d times %d %s: %w", quantity, m.minor, m.currency, ErrOverflow)
	}
	return Money{minor: product, currency: m.currency}, nil
}
