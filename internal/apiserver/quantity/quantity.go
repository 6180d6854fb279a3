// Package quantity parses quantities of resources, such as 100m or 2Gi.
//
// See https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
package quantity

import (
	"errors"
	"math/big"
	"strconv"
	"strings"
)

// The errors of [Parse], with the messages of kube-apiserver.
var (
	ErrFormat  = errors.New("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
	errNumeric = errors.New("unable to parse numeric part of quantity")
	errSuffix  = errors.New("unable to parse quantity's suffix")
)

// Quantity is an amount.
type Quantity struct {
	nanos  *big.Int
	suffix suffixes
	text   string // the parsed text, if kube-apiserver keeps it
}

// suffixes are the kinds of suffixes.
type suffixes int

const (
	decimal  suffixes = iota // n, u, m, k, M, G, T, P, E
	binary                   // Ki, Mi, Gi, Ti, Pi, Ei
	exponent                 // e3
)

const (
	decimalNames = "num kMGTPE" // from 10⁻⁹ in steps of three
	binaryNames  = "KMGTPE"     // from 2¹⁰ in steps of ten
	most         = 1<<63 - 1    // the maximum with binary suffixes
)

// Parse parses an amount. It rounds fractions of a billionth away from zero.
func Parse(text string) (*Quantity, error) {
	unsigned := strings.TrimLeft(text[:min(1, len(text))], "+-") + text[min(1, len(text)):]
	whole, rest := digits(strings.TrimLeft(unsigned, "0"))
	fraction := ""
	if after, ok := strings.CutPrefix(rest, "."); ok {
		fraction, rest = digits(after)
	}
	if !wellFormed(text, rest) {
		return nil, ErrFormat
	}
	kind, power, ok := parseSuffix(rest)
	if !ok {
		return nil, errSuffix
	}
	if whole == "" {
		whole = "0"
	}
	value, ok := new(big.Int).SetString(whole+fraction, 10)
	large := kind == binary && power >= 50 || kind != binary && power < -9
	if !ok || large && fraction == "" && strings.IndexAny(unsigned, "0123456789") != 0 { // with other suffixes, a number without digits is zero
		return nil, errNumeric
	}
	if power = min(max(power, -1000), 1000); value.Sign() == 0 {
		power = 0
	}
	q := &Quantity{suffix: kind, nanos: scaled(value, kind, power, len(fraction))}
	if kind == binary && q.nanos.Cmp(nanos(most)) > 0 {
		q.nanos = nanos(most)
	}
	if kind == binary && q.nanos.Cmp(nanos(1)) < 0 {
		q.suffix = decimal
	}
	if strings.HasPrefix(text, "-") {
		q.nanos.Neg(q.nanos)
	}
	if keeps(kind, power, whole, fraction) {
		q.text = text
	}
	return q, nil
}

// digits splits a text after its leading digits.
func digits(text string) (first, rest string) {
	rest = strings.TrimLeft(text, "0123456789")
	return text[:len(text)-len(rest)], rest
}

// wellFormed reports whether a text has the form of an amount. The rest is the text after its number.
func wellFormed(text, rest string) bool {
	power := strings.TrimLeft(rest, "eEinumkKMGTP")
	power = strings.TrimLeft(power[:min(1, len(power))], "+-") + power[min(1, len(power)):]
	return text != "" && strings.TrimLeft(power, "0123456789") == ""
}

// parseSuffix returns the kind of a suffix, and its power of ten, or of two.
func parseSuffix(text string) (kind suffixes, power int, ok bool) {
	switch i := strings.Index(decimalNames, text); {
	case text == "":
		return decimal, 0, true
	case len(text) == 1 && text != " " && i >= 0:
		return decimal, 3*i - 9, true
	case len(text) == 2 && text[1] == 'i':
		i = strings.IndexByte(binaryNames, text[0])
		return binary, 10 * (i + 1), i >= 0
	case text[0] == 'e' || text[0] == 'E':
		power, err := strconv.Atoi(text[1:])
		return exponent, power, err == nil
	}
	return 0, 0, false
}

// nanos returns a whole number in billionths.
func nanos(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1e9)) }

// powerOf returns a power.
func powerOf(base int64, power int) *big.Int {
	return new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(power)), nil)
}

// scaled returns a number with the given decimal places and suffix, in billionths, rounded up.
func scaled(value *big.Int, kind suffixes, power, places int) *big.Int {
	tens := 9 - places
	if kind == binary {
		value.Mul(value, powerOf(2, power))
	} else {
		tens += power
	}
	if tens >= 0 {
		return value.Mul(value, powerOf(10, tens))
	}
	rest := new(big.Int)
	value.QuoRem(value, powerOf(10, -tens), rest)
	if rest.Sign() != 0 {
		value.Add(value, big.NewInt(1))
	}
	return value
}

// keeps reports whether kube-apiserver keeps the text of an amount, because its fast check treats it as canonical.
func keeps(kind suffixes, power int, whole, fraction string) bool {
	number := whole + fraction
	if kind == binary {
		value, err := strconv.ParseInt(number, 10, 64)
		return fraction == "" && err == nil && value&7 != 0 && 15-len(number)-power*3/10-1 >= 0
	}
	places := power - len(fraction)
	return len(number) <= 18 && places >= -9 && places%3 == 0 && !strings.HasSuffix(number, "000") && number[0] != '0'
}

// Cmp returns -1, 0 or 1 if the amount is less than, equal to or greater than another one.
func (q *Quantity) Cmp(other *Quantity) int { return q.nanos.Cmp(other.nanos) }

// Sign returns -1, 0 or 1 if the amount is negative, zero or positive.
func (q *Quantity) Sign() int { return q.nanos.Sign() }

// IsWhole reports whether the amount is a whole number.
func (q *Quantity) IsWhole() bool {
	return new(big.Int).Rem(q.nanos, big.NewInt(1e9)).Sign() == 0
}

// Rat returns the amount as a fraction.
func (q *Quantity) Rat() *big.Rat { return new(big.Rat).SetFrac(q.nanos, big.NewInt(1e9)) }

// String returns the amount in its canonical form: an integer with the largest suitable suffix of the parsed kind.
func (q *Quantity) String() string {
	switch {
	case q.text != "":
		return q.text
	case q.Sign() == 0:
		return "0"
	case q.suffix == binary && q.IsWhole() && q.nanos.CmpAbs(nanos(1024)) >= 0:
		number, steps := divided(new(big.Int).Quo(q.nanos, big.NewInt(1e9)), 1024, len(binaryNames))
		if steps == 0 {
			return number.String()
		}
		return number.String() + binaryNames[steps-1:steps] + "i"
	}
	number, steps := divided(q.nanos, 1000, 1000)
	power := 3*steps - 9
	switch {
	case power == 0:
		return number.String()
	case q.suffix == exponent:
		return number.String() + "e" + strconv.Itoa(power)
	case steps >= len(decimalNames): // kube-apiserver drops amounts without a suitable suffix
		return number.String()
	}
	return number.String() + decimalNames[steps:steps+1]
}

// divided divides a number by another as long as there is no remainder, with a maximum number of divisions.
func divided(n *big.Int, by int64, times int) (*big.Int, int) {
	divisor := big.NewInt(by)
	for step := range times {
		quotient, rest := new(big.Int).QuoRem(n, divisor, new(big.Int))
		if rest.Sign() != 0 {
			return n, step
		}
		n = quotient
	}
	return n, times
}
