package rules

import (
	"fmt"
	"math/big"

	"github.com/kopf-go/kopf/internal/apiserver/quantity"
)

// quantity returns the amount. Malformed amounts are refused earlier, so it returns no error.
func (n *node) quantity() (*quantity.Quantity, bool) {
	if n.value == nil {
		return nil, false
	}
	q, err := quantity.Parse(n.text())
	return q, err == nil
}

// amountOf returns a sum as an amount, in units of 1024 if binary is set.
func amountOf(sum *big.Rat, binary bool) string {
	if kibi := new(big.Rat).Quo(sum, big.NewRat(1024, 1)); binary && kibi.IsInt() {
		return canonical(kibi.Num().String() + "Ki")
	}
	return canonical(sum.FloatString(9))
}

func canonical(text string) string {
	q, err := quantity.Parse(text)
	if err != nil {
		return text
	}
	return fmt.Sprint(q)
}
